"""Fences: which writes a node takes, what they leave, and which of two changes wins (FENCE-1 to FENCE-5)."""

from __future__ import annotations

from random import Random

import pytest

from distkv.core.client_writes import BatchDone, LocalBatch, LocalDecision, LocalSet, WriteDone
from distkv.core.ready import Reply, Wake
from distkv.core.replica import Replica
from distkv.errors import ConflictError, ExistsError, FencedError
from distkv.model.event import Event, Kind, NodeName, Tick, Tock, new_event
from distkv.model.fence import FENCE_MAX, NO_FENCE, Fence
from distkv.model.path import Path
from distkv.sim.told import core_settings
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.message import EventRecord, Start
from distkv.wire.value_requests import GetValue, SetValue

HERE = Path(["p"])
FIRST, SECOND, LATER_EPOCH = (Fence(0, epoch, counter, "night") for epoch, counter in ((7, 1), (7, 2), (8, 0)))
OTHER = Fence(0, 9, 9, "day")
ONE, TWO = b"\x01", b"\x02"


@pytest.fixture
def replica() -> Replica:
    settings = core_settings(NodeName("me"), "me:1", Start(1.7e9, 1), alone=True, init_value=ONE, network_id=bytes(8))
    found = Replica(settings, Random(0))
    found.begin(0, 1.7e9)
    return found


def ask(replica: Replica, request: SetValue) -> Reply | None:
    return replica.step(1, 1.7e9, LocalSet(request)).reply


def put(replica: Replica, value: bytes | None = ONE, fence: Fence | None = None, **more: bool) -> Reply | None:
    return ask(replica, SetValue(1, HERE, value, fence=fence, **more))


def head(replica: Replica) -> Event:
    found = replica.tree.head(HERE)
    assert found is not None
    return found


def hear(replica: Replica, event: Event) -> None:
    replica.store.replay(EventRecord(event, 1.7e9))


def remote(tick: int, tock: int, fence: Fence = NO_FENCE, value: bytes = TWO) -> Event:
    chain = ((NodeName("b"), Tick(tick)),)
    return new_event(HERE, Kind.SET if value else Kind.DELETE, value, chain, Tock(tock), 1.0, fence=fence)


# -- what is taken ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", [SECOND, LATER_EPOCH], ids=str)
def test_a_fence_that_is_not_lower_is_taken(replica: Replica, fence: Fence) -> None:
    put(replica, fence=SECOND)
    assert isinstance(put(replica, TWO, fence), WriteDone)
    assert (head(replica).value, head(replica).fence) == (TWO, fence)


@pytest.mark.parametrize("fence", [FIRST, OTHER, None], ids=str)
def test_any_other_write_is_fenced_off(replica: Replica, fence: Fence | None) -> None:
    put(replica, fence=SECOND)
    before = replica.tick
    for value in (TWO, None):
        refused = put(replica, value, fence)
        assert isinstance(refused, FencedError)
        assert str(SECOND) in str(refused)
    assert (head(replica).value, head(replica).fence, replica.tick) == (ONE, SECOND, before)


def test_a_deletion_leaves_the_fence_for_late_writes(replica: Replica) -> None:
    put(replica, fence=SECOND)
    put(replica, None, SECOND)
    assert (head(replica).kind, head(replica).fence) == (Kind.DELETE, SECOND)
    assert isinstance(put(replica, TWO, FIRST), FencedError)


def test_a_deletion_of_nothing_under_a_fence_leaves_it(replica: Replica) -> None:
    put(replica, None, SECOND)
    assert isinstance(put(replica, TWO, FIRST), FencedError)


def test_a_second_deletion_under_the_same_fence_changes_nothing(replica: Replica) -> None:
    put(replica, None, SECOND)
    before = replica.tick
    assert put(replica, None, SECOND) == WriteDone(None, None)
    assert replica.tick == before


def test_a_fence_is_looked_at_before_other_conditions(replica: Replica) -> None:
    put(replica, fence=SECOND)
    assert isinstance(put(replica, TWO, FIRST, new=True), FencedError)
    assert isinstance(put(replica, TWO, SECOND, new=True), ExistsError)


def test_the_same_value_under_a_higher_fence_is_written(replica: Replica) -> None:
    put(replica, fence=FIRST)
    put(replica, fence=SECOND, idem=True)
    assert head(replica).fence == SECOND
    before = replica.tick
    put(replica, fence=SECOND, idem=True)
    assert replica.tick == before


def test_a_batch_with_a_late_write_is_refused_whole(replica: Replica) -> None:
    put(replica, fence=SECOND)
    ops = (SetValue(0, Path(["q"]), ONE), GetValue(0, HERE), SetValue(0, HERE, TWO, fence=FIRST))
    refused = replica.step(1, 1.7e9, LocalBatch(ops)).reply
    assert isinstance(refused, FencedError)
    assert (refused.op, replica.tree.head(Path(["q"]))) == (2, None)


def test_a_batch_writes_under_a_fence(replica: Replica) -> None:
    reply = replica.step(1, 1.7e9, LocalBatch((SetValue(0, HERE, TWO, fence=FIRST),))).reply
    assert isinstance(reply, BatchDone)
    assert head(replica).fence == FIRST


# -- lifted fences ------------------------------------------------------------------------------------------------


def test_a_lifted_fence_lets_anybody_write(replica: Replica) -> None:
    put(replica, fence=SECOND)
    put(replica, TWO, refence=True)
    assert head(replica).fence == Fence(1, 0, 0, "")
    assert isinstance(put(replica, ONE), WriteDone)
    assert head(replica).fence == Fence(1, 0, 0, "")
    assert isinstance(put(replica, TWO, OTHER), WriteDone)
    assert head(replica).fence == Fence(1, 9, 9, "day")


def test_a_fence_from_before_it_was_lifted_loses(replica: Replica) -> None:
    put(replica, fence=SECOND)
    put(replica, ONE, refence=True)
    hear(replica, remote(1, 1000, LATER_EPOCH))
    entry = replica.tree.get(HERE)
    assert entry is not None
    assert (entry.head.value, entry.head.node) == (ONE, "me")
    assert [loser.fence for loser in entry.conflicts()] == [LATER_EPOCH]


def test_a_fence_that_was_lifted_too_often_is_refused(replica: Replica) -> None:
    hear(replica, remote(1, 5, Fence(FENCE_MAX, 0, 0, "")))
    assert isinstance(put(replica, TWO, refence=True), FencedError)
    assert isinstance(put(replica, TWO), WriteDone)


def test_a_made_up_fence_is_lifted(replica: Replica) -> None:
    put(replica, fence=Fence(0, FENCE_MAX, FENCE_MAX, "night"))
    assert isinstance(put(replica, TWO, LATER_EPOCH), FencedError)
    put(replica, TWO, refence=True)
    assert isinstance(put(replica, TWO, LATER_EPOCH), WriteDone)


# -- what wins ----------------------------------------------------------------------------------------------------


def test_a_late_write_with_the_highest_tock_loses_and_is_listed(replica: Replica) -> None:
    """(docs/protocol, FENCE-7)"""
    put(replica, fence=SECOND)
    hear(replica, remote(1, 1000, FIRST))
    entry = replica.tree.get(HERE)
    assert entry is not None
    assert (entry.head.fence, [loser.fence for loser in entry.conflicts()]) == (SECOND, [FIRST])


def test_a_later_holder_wins_over_a_higher_tock(replica: Replica) -> None:
    hear(replica, remote(1, 1000, FIRST))
    hear(replica, remote(2, 5, SECOND))
    assert head(replica).fence == SECOND


def test_an_expiry_keeps_the_fence(replica: Replica) -> None:
    ask(replica, SetValue(1, HERE, ONE, ttl=1.0, fence=SECOND))
    replica.step(2000, 1.7e9, Wake())
    assert (head(replica).kind, head(replica).fence) == (Kind.EXPIRE, SECOND)
    assert isinstance(put(replica, TWO, FIRST), FencedError)


def contested(replica: Replica) -> Event:
    """An open loser below a winner that has a fence."""
    put(replica, fence=SECOND)
    loser = remote(1, 1000, FIRST)
    hear(replica, loser)
    return loser


def test_a_restored_loser_lifts_the_fence(replica: Replica) -> None:
    loser = contested(replica)
    assert isinstance(replica.step(1, 1.7e9, LocalDecision(Restore(1, loser.link))).reply, WriteDone)
    assert (head(replica).value, head(replica).fence) == (TWO, Fence(1, 0, 0, ""))


def test_a_dismissed_loser_leaves_the_fence(replica: Replica) -> None:
    loser = contested(replica)
    assert isinstance(replica.step(1, 1.7e9, LocalDecision(Dismiss(1, loser.link))).reply, WriteDone)
    assert (head(replica).value, head(replica).fence) == (ONE, SECOND)


def test_a_loser_that_could_lift_the_fence_no_more_is_not_restored(replica: Replica) -> None:
    hear(replica, remote(1, 5, Fence(FENCE_MAX, 1, 1, "night")))
    loser = remote(2, 4, FIRST)
    hear(replica, new_event(HERE, Kind.SET, ONE, ((NodeName("c"), Tick(1)),), loser.tock, 1.0, fence=FIRST))
    before = replica.tick
    refused = replica.step(1, 1.7e9, LocalDecision(Restore(1, (NodeName("c"), Tick(1))))).reply
    assert isinstance(refused, ConflictError)
    assert replica.tick == before


# -- what stays ---------------------------------------------------------------------------------------------------


def test_a_tombstone_under_a_fence_stays(replica: Replica) -> None:
    put(replica, fence=SECOND)
    put(replica, None, SECOND)
    run(replica)
    assert head(replica).fence == SECOND


def test_a_tombstone_that_lifted_the_fence_stays(replica: Replica) -> None:
    """Without it the next write would begin below what other nodes still have."""
    put(replica, fence=SECOND)
    put(replica, None, refence=True)
    run(replica)
    assert head(replica).fence == Fence(1, 0, 0, "")


def test_a_tombstone_without_a_fence_goes(replica: Replica) -> None:
    put(replica)
    put(replica, None)
    run(replica)
    assert replica.tree.head(HERE) is None


def test_tombstones_under_fences_are_not_counted_as_due(replica: Replica) -> None:
    put(replica, None, SECOND)
    run(replica)
    assert replica.tombstones_due == 0


def run(replica: Replica) -> None:
    """Three days pass."""
    now_ms, end_ms = 0, 3 * 86_400_000
    while now_ms < end_ms:
        wake_ms = replica.wake_ms()
        now_ms = end_ms if wake_ms is None else max(wake_ms, now_ms + 60_000)
        replica.step(now_ms, 1.7e9 + now_ms / 1000, Wake())
