"""One word, one meaning: a class name stands once in the whole product.

Knows: the names of classes, as the source has them.  Does not import what it reads.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "distkv"

BOTH_SIDES = {"ChangePage", "Entry", "Watch"}
"""What a client and a node both speak of: the same thing, once as the node has it, once as a user of the library gets
it. The import rules keep the two apart."""


@functools.cache
def _places() -> dict[str, list[str]]:
    """Where each class is, by its name; an underscore in front makes no other word of it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(str(path.relative_to(PACKAGE)))
    return found


def test_class_names_stand_once() -> None:
    places = _places()
    assert len(places) > 500, "the package is not where this test looks"
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in BOTH_SIDES} == {}


def test_what_stands_on_both_sides_is_of_the_client_once() -> None:
    places = _places()
    for name in BOTH_SIDES:
        assert sum(where.startswith("client/") for where in places[name]) == 1, f"{name}: {places[name]}"
        assert len(places[name]) == 2
