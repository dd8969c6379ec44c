"""The words of every mutant stand once in the source, and the tests that are to notice it are there, so that a rename
that forgets one is seen in seconds.

Knows: all lists.  Whether a test notices the mutant is the business of the other modules here.
"""

from __future__ import annotations

from collections import Counter

from tests.mutants.logged import LOGGED
from tests.mutants.run import MUTANTS, ROOT, Mutant
from tests.mutants.shell import BROKEN
from tests.mutants.simulated import SIMULATED
from tests.offenders import assert_none

LISTS = {"run": MUTANTS, "logged": LOGGED, "simulated": [one.mutant for one in SIMULATED]}
LISTS["shell"] = [one.mutant for one in BROKEN]
EVERY = [(f"{name}-{mutant.name}", mutant) for name, mutants in LISTS.items() for mutant in mutants]
"""Each with its name and that of its list."""


def _count(mutant: Mutant) -> int:
    """How often its words stand in its file."""
    return (ROOT / "distkv" / mutant.file).read_text(encoding="utf-8").count(mutant.old)


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
    counts = [(name, _count(mutant)) for name, mutant in EVERY]
    assert_none([(name, count) for name, count in counts if count != 1], "correct it in the list that has it")


def test_mutants_change_something() -> None:
    assert_none([name for name, mutant in EVERY if mutant.old == mutant.new])


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
