"""What others show of a disk that is marked stale (docs/protocol, LIFE-10)."""

from __future__ import annotations

from distkv.core.lives import OldDisk
from distkv.model.event import NodeName

CLOCK_MS = 5000
A, B = NodeName("a"), NodeName("b")
OURS = (1, b"12345678")


def _lasting(disk: OldDisk, *, has_same_ticks: bool) -> int:
    """For how many half clocks it must differ."""
    return next(n for n in range(10_000) if disk.differed(n * CLOCK_MS // 2, has_same_ticks=has_same_ticks))


def test_old_disk_is_told_from_a_good_one_after_half_a_clock() -> None:
    assert _lasting(OldDisk(CLOCK_MS), has_same_ticks=True) == 1


def test_old_disk_whose_ticks_are_never_the_same_is_told_after_eight_clocks() -> None:
    """(docs/protocol, LIFE-15)"""
    assert _lasting(OldDisk(CLOCK_MS), has_same_ticks=False) == 16


def test_each_start_that_did_not_help_doubles_the_time_up_to_a_limit() -> None:
    """(docs/protocol, LIFE-16)"""
    times = [_lasting(OldDisk(CLOCK_MS, restarts), has_same_ticks=True) for restarts in (0, 1, 2, 3, 8, 9)]
    assert times == [1, 2, 4, 8, 256, 256]


def test_agreement_ends_the_doubt() -> None:
    disk = OldDisk(CLOCK_MS)
    disk.differed(0, has_same_ticks=True)
    disk.agreed(A, OURS, [A, B], is_good=False)
    assert not disk.differed(CLOCK_MS, has_same_ticks=True)


def test_old_disk_is_good_when_a_good_node_or_all_others_hold_the_same() -> None:
    """(docs/protocol, LIFE-17)"""
    assert OldDisk(CLOCK_MS).agreed(A, OURS, [A, B], is_good=True)
    disk = OldDisk(CLOCK_MS)
    names = A, NodeName("stranger"), B
    assert [disk.agreed(name, OURS, [A, B], is_good=False) for name in names] == [False, False, True]


def test_agreement_about_another_state_does_not_count() -> None:
    disk = OldDisk(CLOCK_MS)
    disk.agreed(A, (7, b"12345678"), [A, B], is_good=False)
    assert not disk.agreed(B, OURS, [A, B], is_good=False)
