"""The simulator and the scenarios notice when a rule of the protocol is missing; all mutants run by one command, see
`simulated.py`.

Knows: three mutants that their first seed kills.  Whether all find their words is looked at by `test_words`.
"""

from __future__ import annotations

import pytest

from tests.mutants.run import Mutant
from tests.mutants.simulated import SIMULATED, Simulated, killer

QUICK = ("loser-dropped", "chain-ignored", "wall-clock")
"""Mutants whose seed is known, so that one run of the simulator judges them."""


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in SIMULATED if one.mutant.name in QUICK], ids=lambda one: one.mutant.name)
def test_missing_rule_is_noticed_by_a_seed(one: Simulated) -> None:
    assert (killer(one) or "").startswith(f"seed {one.seed}: ")


@pytest.mark.slow
def test_change_that_breaks_no_rule_survives() -> None:
    harmless = Mutant("harmless", "a comment", "model/event.py", '"""The Lamport clock of the network."""', "")
    assert killer(Simulated(harmless)) is None
