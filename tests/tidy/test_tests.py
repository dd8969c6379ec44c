"""Rules for the tests themselves: each can fail, none waits for time to pass.

Knows: the syntax trees of tests.  Does not know whether a test is a good one.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import attrs
import pytest

TESTS = Path(__file__).parents[1]
MODULES = sorted(TESTS.rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef

CHECKS = re.compile(r"^_?(assert|check|expect|must|raises|fail|verify|wait|run_state_machine)")
"""Calls by these names make a test fail when something does not hold."""


def _name(path: Path) -> str:
    return str(path.relative_to(TESTS))


@attrs.frozen
class _Found:
    """What the rules look at: a file is read and walked once for all of them, and its tree is not kept."""

    cannot_fail: list[str]
    sleeping: list[int]
    imported: set[str]
    scopes: list[list[str]]
    """The names of the tests of the module, and of each class in it."""


@functools.cache
def _found(path: Path) -> _Found:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=_name(path))))
    functions = [node for node in nodes if isinstance(node, Function)]
    own = {function.name: function for function in functions}
    return _Found(
        [test.name for test in functions if _is_test(test) and not _can_fail(test, own)],
        [node.lineno for node in nodes if isinstance(node, ast.Call) and _sleeps(node)],
        {name for node in nodes for name in _imported(node)},
        [
            [inner.name for inner in scope.body if _is_test(inner)]
            for scope in nodes
            if isinstance(scope, ast.Module | ast.ClassDef)
        ],
    )


def _is_test(node: ast.AST) -> TypeGuard[Function]:
    return isinstance(node, Function) and node.name.startswith("test_")


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
    return ""


def _can_fail(test: Function, own: dict[str, Function], seen: frozenset[str] = frozenset()) -> bool:
    """Whether a test asserts something, itself or in a function of its module that it calls or passes on."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and CHECKS.match(_called(node)):
            return True
        if isinstance(node, ast.Name) and node.id in own.keys() - seen:
            seen |= {node.id}
            if _can_fail(own[node.id], own, seen):
                return True
    return False


def _sleeps(call: ast.Call) -> bool:
    # To write out what is called takes long; most calls end in another name.
    return _called(call) == "sleep" and ast.unparse(call.func) in {"time.sleep", "asyncio.sleep", "sleep"}


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        yield node.module or ""


@pytest.mark.parametrize("path", [path for path in MODULES if path.name.startswith("test_")], ids=_name)
def test_every_test_can_fail(path: Path) -> None:
    assert _found(path).cannot_fail == []


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_no_test_sleeps_in_real_time(path: Path) -> None:
    blocking = _found(path).sleeping
    assert not blocking, f"lines {blocking}: wait for a condition, with a deadline"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_no_test_mocks(path: Path) -> None:
    names = _found(path).imported
    assert not [name for name in names if "mock" in name.split(".")], "give it a fake that the product ships"


@pytest.mark.parametrize("path", [path for path in MODULES if path.name.startswith("test_")], ids=_name)
def test_no_test_hides_behind_another_of_the_same_name(path: Path) -> None:
    for names in _found(path).scopes:
        assert len(names) == len(set(names))
