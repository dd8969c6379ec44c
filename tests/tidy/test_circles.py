"""Modules are in an order in which each can be read before all that import it: no imports in a circle.

Knows: imports as the source has them, also inside functions and for type checkers only.  Does not import what it reads,
nor what the layers are (pyproject.toml).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.offenders import assert_none
from tests.tidy.sources import PRODUCT, Source, file_name, in_each


def _name(file: str) -> str:
    """The module that a file has."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(source: Source) -> Iterator[str]:
    """The names of what a module imports: of `from a import b` first a.b, which may be a module, then a."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)
            yield module


@in_each(PRODUCT)
def _imports(source: Source) -> set[str]:
    return {*_imported(source)}


def _graph(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Module -> the modules that it imports, of those that there are."""
    graph = {name: imported & {*imports} - {name} for name, imported in imports.items()}
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
    texts = {
        "a": "import b",
        "b": "def f():\n    from c import x",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import y",
        "d": "import a",
    }
    imports = {name: {*_imported(Source.of(text))} for name, text in texts.items()}
    assert _circles(_graph(imports)) == [{"a", "b", "c"}]


def test_no_modules_import_each_other() -> None:
    imports = _imports()
    assert len(PRODUCT) > 300, "the package is not where this test looks"
    relative = {file: names for file in imports if (names := [name for name in imports[file] if name.startswith(".")])}
    assert_none(relative, "this test does not read relative imports")
    files = map(file_name, PRODUCT)
    assert_none(_circles(_graph({_name(file): imports.get(file, set()) for file in files})))
