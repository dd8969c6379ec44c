"""The words of every mutant stand once in the source, which is still Python without its rule, and the tests that are to
notice it are there, so that a change that forgets one is seen in seconds.

Knows: all lists.  Whether a test notices a mutant is the business of `test_sample`, and of a soak.
"""

from __future__ import annotations

import ast
from collections import Counter

from tests.mutants.every import LISTS
from tests.mutants.run import ROOT, Mutant
from tests.mutants.shell import BROKEN
from tests.offenders import assert_none

EVERY = [(f"{name}-{one.mutant.name}", one.mutant) for name, some in LISTS.items() for one in some]
"""Each with its name and that of its list."""


def _source(mutant: Mutant) -> str:
    return (ROOT / "distkv" / mutant.file).read_text(encoding="utf-8")


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _is_there(test: str) -> bool:
    """Whether there is a test by this name: a file, or a function of it, maybe for a scenario."""
    file, _, name = test.partition("::")
    function, _, case = name.partition("[")
    path = ROOT / file
    return (
        path.exists()
        and (not function or f"def {function}(" in path.read_text(encoding="utf-8"))
        and (not case or (path.parent / f"{case.removesuffix(']')}.txt").exists())
    )


def test_words_of_a_mutant_stand_once() -> None:
    assert all(LISTS.values())
    counts = [(name, _source(mutant).count(mutant.old)) for name, mutant in EVERY]
    assert_none([(name, count) for name, count in counts if count != 1], "correct it in the list that has it")


def test_mutants_change_something() -> None:
    assert_none([name for name, mutant in EVERY if mutant.old == mutant.new])


def test_source_without_a_rule_can_be_read() -> None:
    changed = [(name, _source(mutant).replace(mutant.old, mutant.new)) for name, mutant in EVERY]
    assert_none([name for name, text in changed if not _is_python(text)])
    assert not _is_python("if True:\n")


def test_names_of_mutants_stand_once_in_their_list() -> None:
    assert_none({name: count for name, count in Counter(name for name, _ in EVERY).items() if count > 1})


def test_tests_that_notice_a_mutant_are_there() -> None:
    named = [(one.mutant.name, test) for one in BROKEN for test in one.tests]
    assert named
    assert_none([(name, test) for name, test in named if not _is_there(test)])


def test_test_that_is_not_there_is_found() -> None:
    gone = ["none.py", "tests/mutants/test_words.py::test_none", "tests/scenarios/test_scenarios.py::none[lost]"]
    gone += ["tests/scenarios/test_scenarios.py::test_scenario_gives_the_expected_trace[none]"]
    there = "tests/scenarios/test_scenarios.py::test_scenario_gives_the_expected_trace[lost]"
    assert [test for test in [*gone, there] if not _is_there(test)] == gone
