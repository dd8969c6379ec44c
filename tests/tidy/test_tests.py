"""Rules for the tests themselves: each can fail, none waits for time to pass.

Knows: the syntax trees of tests.  Does not know whether a test is a good one.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import TypeGuard

from tests.offenders import assert_none
from tests.tidy.sources import TESTS, Source, in_each

WITH_TESTS = [path for path in TESTS if path.name.startswith("test_")]

Function = ast.FunctionDef | ast.AsyncFunctionDef

CHECKS = re.compile(r"^_?(assert|check|expect|must|raises|fail|verify|wait|run_state_machine)")
"""Calls by these names make a test fail when something does not hold."""


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


def _functions(source: Source) -> list[Function]:
    return [node for node in source.nodes if isinstance(node, Function)]


@in_each(WITH_TESTS)
def _that_cannot_fail(source: Source) -> list[str]:
    functions = _functions(source)
    own = {function.name: function for function in functions}
    return [test.name for test in functions if _is_test(test) and not _can_fail(test, own)]


@in_each(TESTS)
def _sleeping(source: Source) -> list[int]:
    return [node.lineno for node in source.nodes if isinstance(node, ast.Call) and _sleeps(node)]


@in_each(TESTS)
def _mocks(source: Source) -> list[str]:
    """What is imported by that name."""
    names: set[str] = set()
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return [name for name in names if "mock" in name.split(".")]


@in_each(WITH_TESTS)
def _hidden(source: Source) -> list[str]:
    """Names that two tests of the module have, or of one class in it."""
    scopes = [node for node in source.nodes if isinstance(node, ast.Module | ast.ClassDef)]
    counts = [Counter(inner.name for inner in scope.body if _is_test(inner)) for scope in scopes]
    return [name for names in counts for name, count in names.items() if count > 1]


def test_every_test_can_fail() -> None:
    assert_none(_that_cannot_fail())


def test_no_test_sleeps_in_real_time() -> None:
    assert_none(_sleeping(), "in these lines: wait for a condition, with a deadline")


def test_no_test_mocks() -> None:
    assert_none(_mocks(), "give it a fake that the product ships")


def test_no_test_hides_behind_another_of_the_same_name() -> None:
    assert_none(_hidden())
