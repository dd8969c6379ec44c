"""Some of the trials of `tests.property.damage`: of each kind of damage so many, always the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.property.damage import Ending, outcomes
from tests.property.damage_kinds import KINDS

COUNT = 22


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_directory_reads_right_or_heals_or_is_refused_in_a_line(tmp_path: Path, kind: str) -> None:
    found = list(outcomes(tmp_path, 12, range(COUNT), kind))
    assert [str(outcome) for outcome in found if outcome.ending is Ending.WRONG] == []
    assert len(found) == COUNT
