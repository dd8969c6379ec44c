"""The Python files of the repository, each read and parsed once for all rules that look at it.

Knows: which files there are, and which functions look at which of them.  Does not know what they look for.

Invariant: no tree is kept, so what a function returns has none of its nodes. All together they are more than a million,
and as long as they lie in memory, each search for garbage goes through all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs

ROOT = Path(__file__).parents[2]
PRODUCT = sorted((ROOT / "distkv").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = sorted([*(ROOT / "packaging").rglob("*.py"), *(ROOT / "docs").glob("*.py")])

What = TypeVar("What")


def file_name(path: Path) -> str:
    """As messages name it: from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


@attrs.frozen
class Source:
    """One file, as a rule sees it."""

    text: str
    tree: ast.Module
    nodes: list[ast.AST]
    """All of the tree, the module first."""

    @classmethod
    def of(cls, text: str, file: str = "sample") -> Source:
        tree = ast.parse(text, filename=file)
        return cls(text, tree, list(ast.walk(tree)))


class Look(Generic[What]):
    """A function that looks at one source. Call it to learn what there is in which of its files.

    Files in which nothing is found are left out.
    """

    def __init__(self, paths: frozenset[Path], look: Callable[[Source], What]) -> None:
        assert paths, "there are no files to look at"
        self.paths = paths
        self.look = look
        self.found: dict[str, What] | None = None

    def __call__(self) -> dict[str, What]:
        if self.found is None:
            _show_all()
        assert self.found is not None
        return self.found


_LOOKS: list[Look[Any]] = []


def in_each(paths: Iterable[Path]) -> Callable[[Callable[[Source], What]], Look[What]]:
    """Decorates a function that looks at one source: it looks at each of these files."""

    def registered(look: Callable[[Source], What]) -> Look[What]:
        _LOOKS.append(Look(frozenset(paths), look))
        return _LOOKS[-1]

    return registered


def _show_all() -> None:
    """Show each file to all who have not seen theirs."""
    waiting = [one for one in _LOOKS if one.found is None]
    found: list[dict[str, Any]] = [{} for _ in waiting]
    for path in sorted({path for one in waiting for path in one.paths}):
        source = Source.of(path.read_text(encoding="utf-8"), file_name(path))
        for one, here in zip(waiting, found, strict=True):
            if path in one.paths and (what := one.look(source)):
                here[file_name(path)] = what
    for one, here in zip(waiting, found, strict=True):
        one.found = here
