"""The tests of the shell notice when a rule of engine, services or storage is missing; all mutants run by one command,
see `shell.py`.

Knows: two mutants that are killed quickly, and that all of them still find their words and their tests.
"""

from __future__ import annotations

import pytest

from tests.mutants.broken import Broken
from tests.mutants.run import ROOT, Mutant
from tests.mutants.shell import BROKEN, killer

QUICK = ("waits-for-the-next", "reply-early")


@pytest.mark.parametrize("one", BROKEN, ids=lambda one: one.mutant.name)
def test_words_of_a_mutant_stand_in_the_source_once(one: Broken) -> None:
    source = (ROOT / "distkv" / one.mutant.file).read_text(encoding="utf-8")
    assert source.count(one.mutant.old) == 1, f"correct {one.mutant.name} in the list of tests/mutants that has it"


@pytest.mark.parametrize("one", BROKEN, ids=lambda one: one.mutant.name)
def test_tests_that_notice_a_mutant_are_there(one: Broken) -> None:
    for test in one.tests:
        file, _, name = test.partition("::")
        path = ROOT / file
        assert path.exists(), f"{one.mutant.name} names {file}"
        function, _, case = name.partition("[")
        assert not function or f"def {function}(" in path.read_text(encoding="utf-8")
        assert not case or (path.parent / f"{case.removesuffix(']')}.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in BROKEN if one.mutant.name in QUICK], ids=lambda one: one.mutant.name)
def test_missing_rule_is_noticed(one: Broken) -> None:
    assert killer(one) is not None, f"no test notices that {one.mutant.rule!r} does not hold"


@pytest.mark.slow
def test_change_that_breaks_no_rule_survives() -> None:
    harmless = Mutant("harmless", "a comment", "engine/commit.py", '"""How many of them are on the disk."""', "")
    assert killer(Broken(harmless, ("tests/node/test_commit_group.py",))) is None
