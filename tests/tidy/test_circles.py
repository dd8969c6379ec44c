"""Modules are in an order in which each can be read before all that import it: no imports in a circle.

Knows: imports as the source has them, also inside functions and for type checkers only.  Does not import what it reads,
nor what the layers are (pyproject.toml).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "distkv"


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(source: ast.AST) -> Iterator[str]:
    """The names of what a module imports: of `from a import b` first a.b, which may be a module, then a."""
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert node.level == 0, "this test does not read relative imports"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def _graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Module -> the modules that it imports."""
    graph = {name: {*_imported(ast.parse(source))} & {*sources} - {name} for name, source in sources.items()}
    if "distkv" in graph:
        graph["distkv"] = set()  # its table of names is loaded when somebody asks for one of them
    return graph


def _circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Modules each of which leads to all others of its circle."""
    reached = {name: _reached(name, graph) for name in graph}
    circles = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return [{*circle} for circle in circles if circle]


def _reached(name: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    rest = [name]
    while rest:
        new = graph[rest.pop()] - found
        found |= new
        rest += new
    return found


def test_circle_is_found_however_it_is_closed() -> None:
    sources = {
        "a": "import b",
        "b": "def f():\n    from c import x",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import y",
        "d": "import a",
    }
    assert _circles(_graph(sources)) == [{"a", "b", "c"}]


def test_no_modules_import_each_other() -> None:
    sources = {_name(path): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(sources) > 300, "the package is not where this test looks"
    assert _circles(_graph(sources)) == []
