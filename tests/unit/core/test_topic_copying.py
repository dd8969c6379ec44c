"""An operation is said to be copied when all followers that are named have it on their disks."""

from __future__ import annotations

import random

from distkv.core.ground.node_calls import Replied
from distkv.core.ready import Note
from distkv.core.topics.copy_stream import QUEUE_BYTES_MAX, CopyPurpose
from distkv.core.topics.copying import PATIENCE_MS
from tests.topic_copies import A, B, C, Fleet

T = "news"
SOON_MS = 2000


def _fleet(**more: float) -> Fleet:
    fleet = Fleet(random.Random(1), **more)  # type: ignore[arg-type]
    for node in (A, B, C):
        fleet.add(node)
    return fleet


def test_operation_without_followers_is_copied_at_once() -> None:
    fleet = _fleet()
    fleet.name(T, A)
    a = fleet.nodes[A]
    a.put(T, "k", b"1", "put")
    assert a.done == [("put", 1)]


def test_operation_is_copied_when_the_followers_disk_has_it() -> None:
    """COPY-1."""
    fleet = _fleet(disk_ms=500)
    fleet.name(T, A, B, C)
    a = fleet.nodes[A]
    a.put(T, "k", b"1", "put")

    def see() -> None:
        if a.found:
            assert fleet.nodes[B].on_disk(T, "k") == fleet.nodes[C].on_disk(T, "k") == b"1"

    fleet.pass_time(SOON_MS, see)
    assert a.done == [("put", 3)]


def test_operation_waits_for_a_follower_that_is_silent() -> None:
    fleet = _fleet()
    fleet.name(T, A, B, C)
    fleet.nodes[C].is_paused = True
    fleet.nodes[A].put(T, "k", b"1", "put")
    fleet.pass_time(SOON_MS)
    assert fleet.nodes[A].done == []


def test_operation_is_copied_to_who_takes_the_place_of_a_silent_follower() -> None:
    fleet = _fleet()
    fleet.name(T, A, B)
    fleet.nodes[B].is_paused = True
    a = fleet.nodes[A]
    a.put(T, "k", b"1", "put")
    fleet.pass_time(SOON_MS)
    fleet.name(T, A, C)
    assert a.done == []
    fleet.pass_time(SOON_MS)
    assert a.done == [("put", 2)]
    assert fleet.nodes[C].on_disk(T, "k") == b"1"


def test_operation_of_before_counts_for_a_new_follower_when_that_is_whole() -> None:
    """COPY-1."""
    fleet = _fleet()
    fleet.name(T, A)
    a = fleet.nodes[A]
    a.put(T, "k", b"1")
    fleet.nodes[B].is_paused = True
    fleet.name(T, A, B)
    assert a.copying.copies(T) == 1
    fleet.nodes[B].is_paused = False
    fleet.name(T, A, B)
    a.put(T, "l", b"1")  # the first batch makes a copy there, which is compared
    fleet.pass_time(SOON_MS)
    assert a.copying.copies(T) == 2
    assert fleet.nodes[B].on_disk(T, "k") == b"1"


def test_follower_that_takes_too_long_is_sent_nothing_until_it_compares() -> None:
    """COPY-3."""
    fleet = _fleet()
    fleet.name(T, A, B)
    a, b = fleet.nodes[A], fleet.nodes[B]
    a.put(T, "first", b"")
    fleet.pass_time(SOON_MS)
    b.is_paused = True
    for at in range(20):
        a.put(T, f"k{at}", bytes(QUEUE_BYTES_MAX // 16), f"put{at}")
    assert "topic_copies_overflow" in {note.id for note in a.notes}
    b.is_paused = False
    fleet.pass_time(10 * SOON_MS)
    assert b.copies[T].digest == a.copies[T].digest
    assert [target for target, _ in a.done] == [f"put{at}" for at in range(20)]


def test_follower_that_was_away_for_longer_than_patience_compares() -> None:
    fleet = _fleet()
    fleet.name(T, A, B)
    a, b = fleet.nodes[A], fleet.nodes[B]
    a.put(T, "first", b"")
    fleet.pass_time(SOON_MS)
    b.is_paused = True
    a.put(T, "k", b"1", "put")
    fleet.pass_time(PATIENCE_MS + SOON_MS)
    assert a.done == []
    assert "topic_copies_unanswered" in {note.id for note in a.notes}
    b.is_paused = False
    fleet.pass_time(SOON_MS)
    assert a.done == [("put", 2)]


def test_follower_without_room_does_not_count() -> None:
    """COPY-3."""
    fleet = _fleet()
    fleet.name(T, A, B)
    a, b = fleet.nodes[A], fleet.nodes[B]
    b.rows_max = 1
    a.put(T, "k", b"1", "first")
    fleet.pass_time(SOON_MS)
    a.put(T, "l", b"1", "second")
    fleet.pass_time(SOON_MS)
    assert [target for target, _ in a.done] == ["first"]
    assert "topic_copy_refused" in {note.id for note in b.notes}
    b.rows_max = 100
    fleet.pass_time(SOON_MS)
    assert [target for target, _ in a.done] == ["first", "second"]


def test_follower_that_refuses_a_topic_is_to_be_replaced_and_is_not_whole() -> None:
    """TOPIC-9."""
    fleet = _fleet()
    fleet.name(T, A, B)
    a, b = fleet.nodes[A], fleet.nodes[B]
    a.put(T, "k", b"1")
    fleet.pass_time(SOON_MS)
    assert b.comparing.whole(T)
    b.rows_max = 1
    a.put(T, "l", b"1")
    fleet.pass_time(SOON_MS)
    assert {*a.replaced} == {(T, B)}
    assert not b.comparing.whole(T)


def test_follower_that_is_silent_or_too_slow_is_not_to_be_replaced_for_refusing() -> None:
    fleet = _fleet()
    fleet.name(T, A, B)
    a = fleet.nodes[A]
    fleet.nodes[B].is_paused = True
    for at in range(20):
        a.put(T, f"k{at}", bytes(QUEUE_BYTES_MAX // 16))
    fleet.pass_time(PATIENCE_MS + SOON_MS)
    assert a.replaced == []


def test_follower_of_a_topic_that_was_dropped_is_not_to_be_replaced() -> None:
    fleet = _fleet()
    fleet.name(T, A, B)
    a, b = fleet.nodes[A], fleet.nodes[B]
    b.dropped.add(T)
    a.put(T, "k", b"1", "put")
    fleet.pass_time(SOON_MS)
    assert (a.done, a.replaced) == ([], [])


def test_follower_that_was_killed_before_its_disk_had_an_operation_is_sent_it_again() -> None:
    fleet = _fleet(disk_ms=1000)
    fleet.name(T, A, B)
    a, b = fleet.nodes[A], fleet.nodes[B]
    a.put(T, "k", b"1", "put")
    while T not in b.copies:
        fleet.pass_time(1)
    b.crash()
    b.start()
    fleet.pass_time(10 * SOON_MS)
    assert a.done == [("put", 2)]
    assert b.on_disk(T, "k") == b"1"


def test_who_does_not_wait_any_more_is_told_nothing() -> None:
    fleet = _fleet()
    fleet.name(T, A, B)
    a = fleet.nodes[A]
    a.put(T, "k", b"1", "one")
    a.put(T, "l", b"1", "two")
    a.copying.gone("one")
    fleet.pass_time(SOON_MS)
    assert [target for target, _ in a.done] == ["two"]


def test_owner_that_is_none_any_more_gets_back_who_waits() -> None:
    fleet = _fleet()
    fleet.name(T, A, B)
    a = fleet.nodes[A]
    a.put(T, "k", b"1", "one")
    assert a.copying.release(T) == ["one"]
    assert a.copying.last_op(T) == 0
    fleet.pass_time(SOON_MS)
    assert a.done == []


def test_row_that_is_gone_does_not_come_back_by_a_batch_that_is_late() -> None:
    for seed in range(20):
        fleet = Fleet(random.Random(seed), loss=0.3, delay_ms=300)
        for node in (A, B):
            fleet.add(node)
        fleet.name(T, A, B)
        a = fleet.nodes[A]
        a.put(T, "first", b"1")
        fleet.pass_time(10 * SOON_MS)
        a.put(T, "k", b"1")
        a.put(T, "k", None)
        fleet.pass_time(10 * SOON_MS)
        assert [*fleet.nodes[B].copies[T].rows] == ["first"]


def test_comparison_of_before_a_naming_makes_no_follower_whole() -> None:
    fleet = _fleet()
    fleet.name(T, A)
    a = fleet.nodes[A]
    a.put(T, "k", b"1")
    fleet.nodes[B].is_paused = True
    fleet.name(T, A, B)
    turn = a.turn()
    a.copying.begin(turn, T, B, 1)
    fleet.name(T, A)
    fleet.name(T, A, B)
    a.copying.became_whole(turn, T, B, 1)
    assert a.copying.copies(T) == 1
    a.copying.begin(turn, T, B, 2)
    a.copying.became_whole(turn, T, B, 2)
    assert a.copying.copies(T) == 2


def test_batch_that_is_no_batch_of_a_follower_counts_for_nothing() -> None:
    fleet = _fleet()
    fleet.name(T, A, B)
    a = fleet.nodes[A]
    fleet.nodes[B].is_paused = True
    a.put(T, "k", b"1", "put")
    turn = a.turn()
    assert a.copying.step(turn, Replied(CopyPurpose(B, 1, 1), b"nonsense"))
    assert a.done == []
    assert "topic_copies_unanswered" in {effect.id for effect in turn.effects if isinstance(effect, Note)}
