"""Rules of style that a machine can check, for every module of the product (and some for all Python here).

Knows: the source text and its syntax tree.  Does not import what it reads.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = sorted((ROOT / "distkv").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = sorted([*(ROOT / "packaging").rglob("*.py"), *(ROOT / "docs").glob("*.py")])

LINES_MAX = 500
NOT_NOUNS = {"common", "helper", "helpers", "misc", "tools", "util", "utils"}
PROMISES = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=_name(path))


@functools.cache
def _imports(path: Path) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _importers(package: str) -> list[str]:
    return [_name(path) for path in PRODUCT if package in _imports(path)]


@pytest.mark.parametrize("path", PRODUCT + TESTS + SCRIPTS, ids=_name)
def test_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(_tree(path)), "give the module a docstring: what it knows, what not, its invariant"


@pytest.mark.parametrize("path", PRODUCT + TESTS + SCRIPTS, ids=_name)
def test_module_promises_no_later_work(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines, 1) if PROMISES.search(line)]
    assert not found, f"lines {found}: do it, or write an issue and a strict xfail test"


def test_module_names_are_nouns_of_the_field() -> None:
    places = [path.relative_to(ROOT) for path in PRODUCT + TESTS + SCRIPTS]
    assert [str(place) for place in places if NOT_NOUNS & {*place.parts[:-1], place.stem}] == []


@pytest.mark.parametrize("path", PRODUCT, ids=_name)
def test_module_is_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES_MAX, "past this, the state inside wants cutting, not only the file"


@pytest.mark.parametrize("path", [path for path in PRODUCT if "daemon" not in path.parts], ids=_name)
def test_except_names_what_it_expects(path: Path) -> None:
    found = [
        node.lineno
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ExceptHandler) and _catches_anything(node.type) and not _passes_on(node)
    ]
    assert not found, f"lines {found}: only the daemon, the last place that can, catches everything"


def _catches_anything(expected: ast.expr | None) -> bool:
    if isinstance(expected, ast.Tuple):
        return any(map(_catches_anything, expected.elts))
    return expected is None or (isinstance(expected, ast.Name) and expected.id in {"Exception", "BaseException"})


def _passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether it only cleans up: its last word is a bare `raise`."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


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
