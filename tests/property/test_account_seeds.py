"""Seeds of the simulator that have accounts, with all faults.

Knows: which seeds are played here.  A soak plays others by `distkv sim --accounts`.
"""

from __future__ import annotations

import pytest

from distkv.sim.accounts.draft import FIRST_SEED
from distkv.sim.draft import draw
from distkv.sim.run import Verdict, run


@pytest.mark.parametrize("number", [3, 16])
def test_seed_with_accounts_keeps_all_rules(number: int) -> None:
    assert run(draw(FIRST_SEED + number)).verdict is Verdict.PASSED
