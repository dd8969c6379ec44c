"""Every sentence of docs/protocol has a test that `make test` runs: what is promised is not left to the soak alone.

Knows: how scenarios and tests cite sentences, and how a test is marked that only `make soak` runs.  Does not know
whether a test shows what it cites, nor whether each parameter of a test is left to the soak.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.offenders import assert_none
from tests.tidy.sources import TESTS, Source, in_each
from tests.tidy.test_scenario_labels import ELSEWHERE, known, shown

LABEL = re.compile(r"\b[A-Z]{2,}-[0-9]+\b")
SOAK = "pytest.mark.soak"

CITING = [path for path in TESTS if path.name.startswith("test_") and path.parent != Path(__file__).parent]
"""The rules here name labels, and show nothing of what these say."""

Test = ast.FunctionDef | ast.AsyncFunctionDef


def _is_soak(mark: ast.expr) -> bool:
    """Whether it is the mark itself; that of one parameter leaves the others."""
    return ast.unparse(mark.func if isinstance(mark, ast.Call) else mark) == SOAK


def _marks_of_module(tree: ast.Module) -> Iterator[ast.expr]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("pytestmark")], value=ast.List(marks) | ast.Tuple(marks)):
                yield from marks
            case ast.Assign(targets=[ast.Name("pytestmark")], value=mark):
                yield mark


def _tests(tree: ast.Module) -> Iterator[tuple[Test, bool]]:
    """The tests of a module, each with whether `make test` runs it."""
    is_module_run = not any(map(_is_soak, _marks_of_module(tree)))
    scopes: list[ast.Module | ast.ClassDef] = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    for scope in scopes:
        marks = scope.decorator_list if isinstance(scope, ast.ClassDef) else []
        for node in scope.body:
            if isinstance(node, Test) and node.name.startswith("test_"):
                yield node, is_module_run and not any(map(_is_soak, [*marks, *node.decorator_list]))


def _words(source: Source) -> Iterator[tuple[int, str]]:
    """What stands in docstrings and comments, with the line where it begins."""
    for node in source.nodes:
        match node:
            case ast.Expr(value=ast.Constant(str() as text)):
                yield node.lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _cited(source: Source) -> Iterator[tuple[str, bool]]:
    """Each label that stands there, with whether `make test` runs the test that it is about, or any of the module."""
    tests = [*_tests(source.tree)]
    is_any_run = any(is_run for _, is_run in tests)
    for line, text in _words(source):
        own = [run for test, run in tests if _first_line(test) <= line <= (test.end_lineno or 0)]
        yield from ((label, own[0] if own else is_any_run) for label in LABEL.findall(text))


def _first_line(test: Test) -> int:
    return min([test.lineno, *(decorator.lineno for decorator in test.decorator_list)])


@in_each(CITING)
def _citations(source: Source) -> set[tuple[str, bool]]:
    return {*_cited(source)} if LABEL.search(source.text) else set()


@in_each(CITING)
def _is_run(source: Source) -> bool:
    return any(is_run for _, is_run in _tests(source.tree))


def _all_citations() -> Iterator[tuple[str, str, bool]]:
    """Each label with the file that shows it, and whether `make test` runs that."""
    yield from ((label, "tests/scenarios", True) for label in shown())
    yield from ((label, file, is_run) for file, cited in _citations().items() for label, is_run in cited)
    for label, why in ELSEWHERE.items():
        file = why.rpartition(" ")[2]
        yield label, file, file in _is_run()


def test_every_sentence_of_the_protocol_has_a_test() -> None:
    labels = known()
    assert labels
    missing = labels - {label for label, _, _ in _all_citations()}
    assert_none(sorted(missing), "name these in the tests that show them: (docs/protocol, LABEL-N)")


def test_no_sentence_of_the_protocol_is_left_to_the_soak() -> None:
    run = {label for label, _, is_run in _all_citations() if is_run}
    not_run = known() - run
    left = {(label, file) for label, file, _ in _all_citations() if label in not_run}
    assert_none(sorted(left), f"only tests with {SOAK} show these: add one that `make test` runs")


SAMPLE = '''"""A module (MOD-1)."""

@pytest.mark.soak
def test_long():
    """It shows LONG-1, and BOTH-1."""

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_short(n):  # PARAM-1
    assert "TEXT-1"  # and BOTH-1

def helper():
    """It is for all (HELP-1)."""

@pytest.mark.soak
class TestOthers:
    async def test_others(self):
        """It shows CLASS-1."""
'''


def test_label_that_only_a_soak_shows_is_found() -> None:
    cited = {*_cited(Source.of(SAMPLE))}
    assert {label for label, is_run in cited if is_run} == {"MOD-1", "BOTH-1", "PARAM-1", "HELP-1"}
    assert {label for label, is_run in cited if not is_run} == {"LONG-1", "BOTH-1", "CLASS-1"}


def test_module_that_is_left_to_the_soak_is_found() -> None:
    for mark in (SOAK, f"[pytest.mark.trio, {SOAK}]", f"({SOAK}(),)"):
        source = Source.of(f"{SAMPLE}\npytestmark = {mark}\n")
        assert {label for label, is_run in _cited(source) if is_run} == set(), mark
    assert "MOD-1" in dict(_cited(source))


def test_module_without_a_test_shows_nothing() -> None:
    assert {*_cited(Source.of('"""Knows MOD-1."""'))} == {("MOD-1", False)}
