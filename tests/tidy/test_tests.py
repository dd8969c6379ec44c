"""Rules for the tests themselves: each can fail, none waits for time to pass.

Knows: the syntax trees of tests.  Does not know whether a test is a good one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MODULES = sorted(TESTS.rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef

CHECKS = re.compile(r"^_?(assert|check|expect|must|raises|fail|verify|wait|run_state_machine)")
"""Calls by these names make a test fail when something does not hold."""


def _name(path: Path) -> str:
    return str(path.relative_to(TESTS))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=_name(path))


def _tests(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node


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


@pytest.mark.parametrize("path", [path for path in MODULES if path.name.startswith("test_")], ids=_name)
def test_every_test_can_fail(path: Path) -> None:
    tree = _tree(path)
    own = {node.name: node for node in ast.walk(tree) if isinstance(node, Function)}
    assert [test.name for test in _tests(tree) if not _can_fail(test, own)] == []


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_no_test_sleeps_in_real_time(path: Path) -> None:
    blocking = [
        node.lineno
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "asyncio.sleep", "sleep"}
    ]
    assert not blocking, f"lines {blocking}: wait for a condition, with a deadline"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_no_test_mocks(path: Path) -> None:
    names = {
        alias.name
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in [*node.names, *([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else [])]
    }
    assert not [name for name in names if "mock" in name.split(".")], "give it a fake that the product ships"


@pytest.mark.parametrize("path", [path for path in MODULES if path.name.startswith("test_")], ids=_name)
def test_no_test_hides_behind_another_of_the_same_name(path: Path) -> None:
    for scope in ast.walk(_tree(path)):
        if isinstance(scope, ast.Module | ast.ClassDef):
            names = [node.name for node in scope.body if isinstance(node, Function) and node.name.startswith("test_")]
            assert len(names) == len(set(names))
