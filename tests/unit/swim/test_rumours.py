"""Which rumours are told next, and how often.

Knows: the queue alone.  Does not know what is true.
"""

from __future__ import annotations

from distkv.swim.rumours import RumourQueue, tellings
from distkv.wire.swim_records import MemberState, NodeId, Rumour, rumour_bytes


def _rumour(name: str, generation: int = 1) -> Rumour:
    return Rumour(MemberState.DEAD, NodeId(name, generation))


def test_tellings_follow_the_digits() -> None:
    """docs/protocol, SWIM-35."""
    assert [tellings(size) for size in (1, 9, 10, 99, 100, 1000)] == [4, 4, 8, 8, 12, 16]


def test_rumour_is_told_so_often_and_no_more() -> None:
    """docs/protocol, SWIM-35."""
    queue = RumourQueue()
    queue.add(_rumour("lamp"))
    told = [queue.take(1000, 12) for _ in range(20)]
    assert [len(one) for one in told] == [1] * 8 + [0] * 12
    assert len(queue) == 0


def test_those_told_least_come_first() -> None:
    """docs/protocol, SWIM-35."""
    queue = RumourQueue()
    queue.add(_rumour("lamp"))
    assert queue.take(1000, 12) == [_rumour("lamp")]
    queue.add(_rumour("desk"))
    assert queue.take(rumour_bytes(_rumour("desk")), 12) == [_rumour("desk")]
    queue.check()


def test_newer_rumour_takes_the_place() -> None:
    queue = RumourQueue()
    queue.add(_rumour("lamp"))
    queue.add(_rumour("lamp", 2))
    assert queue.take(1000, 12) == [_rumour("lamp", 2)]
    queue.check()


def test_small_rumour_finds_place_where_a_long_one_does_not() -> None:
    queue = RumourQueue()
    queue.add(_rumour("l" * 60))
    queue.add(_rumour("desk"))
    assert queue.take(20, 12) == [_rumour("desk")]
    assert len(queue) == 2


def test_rumour_that_is_removed_is_not_told() -> None:
    queue = RumourQueue()
    queue.add(_rumour("lamp"))
    queue.remove("lamp")
    queue.remove("lamp")
    assert queue.take(1000, 12) == []
