"""Some of the trials of `tests.property.damage`: of each kind of damage so many, always the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profiles import seeds
from tests.property.damage import Ending, outcomes
from tests.property.damage_kinds import KINDS
from tests.property.damage_reference import Moment, build

pytestmark = pytest.mark.slow

TRIALS = seeds(10)


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> list[Moment]:
    return build(tmp_path_factory.mktemp("kept"))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_directory_reads_right_or_heals_or_is_refused_in_a_line(
    moments: list[Moment], tmp_path: Path, kind: str
) -> None:
    found = list(outcomes(moments, tmp_path, 12, TRIALS, kind))
    assert [str(outcome) for outcome in found if outcome.ending is Ending.WRONG] == []
    assert len(found) == len(TRIALS)


@pytest.mark.parametrize(
    ("seed", "number"),
    [(1, 111512)],  # an entry of an index in a wrong place, which the scrub counted for the one that should be there
)
def test_trial_that_once_went_wrong(moments: list[Moment], tmp_path: Path, seed: int, number: int) -> None:
    (found,) = outcomes(moments, tmp_path, seed, [number])
    assert found.ending is not Ending.WRONG, str(found)
