"""One word, one meaning: a class name stands once in the whole product.

Knows: the names of classes, as the source has them.  Does not import what it reads.
"""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.offenders import assert_none
from tests.tidy.sources import PRODUCT, Source, in_each

BOTH_SIDES = {"ChangePage", "Entry", "Topic", "Watch"}
"""What a client and a node both speak of: the same thing, once as the node has it, once as a user of the library gets
it. The import rules keep the two apart."""


@in_each(PRODUCT)
def _class_names(source: Source) -> list[str]:
    """An underscore in front makes no other word of it."""
    return [node.name.lstrip("_") for node in source.nodes if isinstance(node, ast.ClassDef)]


def _places() -> dict[str, list[str]]:
    """Where each class is, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, names in _class_names().items():
        for name in names:
            found[name].append(file)
    return found


def test_class_names_stand_once() -> None:
    places = _places()
    assert len(places) > 500, "the package is not where this test looks"
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert_none({name: where for name, where in twice.items() if name not in BOTH_SIDES})


def test_what_stands_on_both_sides_is_of_the_client_once() -> None:
    places = {name: where for name, where in _places().items() if name in BOTH_SIDES}
    assert places.keys() == BOTH_SIDES
    of_client = {name: sum(file.startswith("distkv/client/") for file in where) for name, where in places.items()}
    wrong = {name: where for name, where in places.items() if (len(where), of_client[name]) != (2, 1)}
    assert_none(wrong)
