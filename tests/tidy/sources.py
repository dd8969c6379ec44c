"""The text and the syntax tree of a file, read once: many rules look at each file.

Knows: files as they are when they are first asked for.  Does not know any rule.

Invariant: whoever gets a tree changes nothing in it.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), filename=str(path))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All that is in the tree: to walk a tree again costs more than to parse it."""
    return tuple(ast.walk(tree_of(path)))
