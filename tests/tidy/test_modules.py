"""Rules of style that a machine can check, for every module of the product (and some for all Python here).

Knows: the source text and its syntax tree.  Does not import what it reads.
"""

from __future__ import annotations

import ast
import re

from tests.offenders import assert_none
from tests.tidy.sources import PRODUCT, ROOT, SCRIPTS, TESTS, Source, file_name, in_each

LINES_MAX = 500
CONTAINED = "distkv/core/ground/contained.py"
NOT_NOUNS = {"common", "helper", "helpers", "misc", "tools", "util", "utils"}
PROMISES = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b")


def test_modules_are_where_the_rules_look() -> None:
    assert len(PRODUCT) > 300
    assert len(TESTS) > 300
    assert {file_name(path.parent) for path in SCRIPTS} >= {"docs", "packaging"}


@in_each(PRODUCT + TESTS + SCRIPTS)
def _says_nothing(source: Source) -> bool:
    return not ast.get_docstring(source.tree)


def test_module_says_what_it_is() -> None:
    assert_none([*_says_nothing()], "give the module a docstring: what it knows, what not, its invariant")


@in_each(PRODUCT + TESTS + SCRIPTS)
def _promises(source: Source) -> list[int]:
    return [number for number, line in enumerate(source.text.splitlines(), 1) if PROMISES.search(line)]


def test_module_promises_no_later_work() -> None:
    assert_none(_promises(), "in these lines: do it, or write an issue and a strict xfail test")


def test_module_names_are_nouns_of_the_field() -> None:
    places = [path.relative_to(ROOT) for path in PRODUCT + TESTS + SCRIPTS]
    assert_none([str(place) for place in places if NOT_NOUNS & {*place.parts[:-1], place.stem}])


@in_each(PRODUCT)
def _length(source: Source) -> int:
    return len(source.text.splitlines())


def test_module_is_short() -> None:
    long = {file: lines for file, lines in _length().items() if lines > LINES_MAX}
    assert_none(long, "past this, the state inside wants cutting, not only the file")


@in_each(PRODUCT)
def _broad_excepts(source: Source) -> list[int]:
    return [
        node.lineno
        for node in source.nodes
        if isinstance(node, ast.ExceptHandler) and _catches_anything(node.type)
        and not _passes_on(node) and not _contains(node)
    ]


def test_except_names_what_it_expects() -> None:
    found = {file: lines for file, lines in _broad_excepts().items() if "daemon" not in file.split("/")}
    assert len(found.pop(CONTAINED, [])) == 1, "faults of machines are caught there"
    assert_none(found, "in these lines: only the daemon catches everything; others give it to `contain`")


def _contains(handler: ast.ExceptHandler) -> bool:
    """Whether the error is given to what logs and counts it, and raises what must end the node."""
    calls = [node for node in ast.walk(handler) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    given = {call.func.attr for call in calls if handler.name in {getattr(value, "id", "") for value in call.args}}
    return bool(given & {"contain", "_contain"})


def _catches_anything(expected: ast.expr | None) -> bool:
    if isinstance(expected, ast.Tuple):
        return any(map(_catches_anything, expected.elts))
    return expected is None or (isinstance(expected, ast.Name) and expected.id in {"Exception", "BaseException"})


def _passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether it only cleans up: its last word is a bare `raise`."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


@in_each(PRODUCT)
def _imports(source: Source) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in source.nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _importers(package: str) -> list[str]:
    return [file for file, packages in _imports().items() if package in packages]


def test_msgpack_is_imported_by_wire_only() -> None:
    assert [name for name in _importers("msgpack") if not name.startswith("distkv/wire/")] == []


def test_ruyaml_is_imported_by_one_module_at_most() -> None:
    importers = _importers("ruyaml")
    assert len(importers) <= 1
    assert all(name == "distkv/text/yaml.py" for name in importers)


def test_asyncclick_is_imported_by_cli_only() -> None:
    assert [name for name in _importers("asyncclick") if not name.startswith("distkv/cli/")] == []


def test_serf_is_met_without_a_foreign_client() -> None:
    # No maintained one runs on current libraries; transport/serf_rpc.py is ours.
    assert _importers("asyncserf") + _importers("serfclient") == []
