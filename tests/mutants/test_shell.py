"""The tests of the shell notice when a rule of engine, services or storage is missing; all mutants run by one command,
see `shell.py`.

Knows: two mutants that are killed quickly.  Whether all find their words and their tests is looked at by `test_words`.
"""

from __future__ import annotations

import pytest

from tests.mutants.broken import Broken
from tests.mutants.run import Mutant
from tests.mutants.shell import BROKEN, killer

QUICK = ("waits-for-the-next", "reply-early")


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in BROKEN if one.mutant.name in QUICK], ids=lambda one: one.mutant.name)
def test_missing_rule_is_noticed(one: Broken) -> None:
    assert killer(one) is not None, f"no test notices that {one.mutant.rule!r} does not hold"


@pytest.mark.slow
def test_change_that_breaks_no_rule_survives() -> None:
    harmless = Mutant("harmless", "a comment", "engine/commit.py", '"""How many of them are on the disk."""', "")
    assert killer(Broken(harmless, ("tests/node/test_commit_group.py",))) is None
