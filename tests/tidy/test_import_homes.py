"""Each name is imported from the module that defines it (`packaging/import_homes.py`).

Knows: how a stray import is found and corrected.  Does not import what it reads.
"""

from __future__ import annotations

import ast

from import_homes import Stray, corrected, home, look, paths, strays

from tests.offenders import assert_none

SAMPLES = {
    "distkv.one": "class One:\n    pass\n",
    "distkv.two": "from distkv.one import One\nfrom msgpack import Timestamp\nTWO: int = 2\n",
    "distkv.three": "from distkv.two import One, TWO\n",
}
MODULES = {name: look(ast.parse(text)) for name, text in SAMPLES.items()}


def test_names_are_imported_from_where_they_are_defined() -> None:
    trees = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in paths().items()}
    modules = {module: look(tree) for module, tree in trees.items()}
    assert {"distkv.wire.request", "tests.offenders", "reference", "testing.quick"} <= modules.keys()
    found = {module: [stray.first for stray in strays(tree, modules)] for module, tree in trees.items()}
    assert_none({module: lines for module, lines in found.items() if lines}, "run: python packaging/import_homes.py")


def test_home_of_a_name_is_found_through_those_that_pass_it_on() -> None:
    assert home("distkv.three", "One", MODULES) == "distkv.one"
    assert home("distkv.three", "TWO", MODULES) == "distkv.two"


def test_what_comes_from_outside_has_no_home_here() -> None:
    assert home("distkv.two", "Timestamp", MODULES) == "distkv.two"


def test_stray_import_is_cut_into_one_for_each_home() -> None:
    text = "def late() -> None:\n    from distkv.two import (\n        One,\n        TWO as two,\n    )\n"
    found = strays(ast.parse(text), MODULES)
    assert found == [Stray(2, 5, {"distkv.one": ["One"], "distkv.two": ["TWO as two"]})]
    new = "    from distkv.one import One\n    from distkv.two import TWO as two\n"
    assert corrected(text, found) == f"def late() -> None:\n{new}"


def test_comment_on_a_line_stays() -> None:
    text = "from distkv.two import One  # long to load\n"
    assert corrected(text, strays(ast.parse(text), MODULES)) == "from distkv.one import One  # long to load\n"
