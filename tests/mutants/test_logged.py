"""The tests of the log notice when one of its rules is missing; all mutants run by one command, see `logged.py`.

Knows: three mutants that a unit test kills.  Whether all find their words is looked at by `test_words`.
"""

from __future__ import annotations

import pytest

from tests.mutants.logged import LOGGED, killer
from tests.mutants.run import Mutant

QUICK = ("sealed", "file-length", "torn-or-damaged")


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [one for one in LOGGED if one.name in QUICK], ids=lambda mutant: mutant.name)
def test_missing_rule_is_noticed_by_a_unit_test(mutant: Mutant) -> None:
    assert killer(mutant, properties=False) is not None


@pytest.mark.slow
def test_change_that_breaks_no_rule_survives() -> None:
    harmless = Mutant("harmless", "a comment", "storage/tail.py", "The fields of a batch have", "The fields have")
    assert killer(harmless, properties=False) is None
