"""Conflicts that somebody decides about: a write that names winner and loser closes that one, and no other."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from distkv.core.client_writes import LocalDecision, LocalSet, WriteDone
from distkv.core.ready import Ready
from distkv.core.replica import Replica
from distkv.errors import ChainMismatchError, NotFoundError, NotReadyError, RequestError
from distkv.model.event import COUNT_BITS, Event, ExpiringEvent, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.sim.told import core_settings
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.message import EventRecord, LifeRecord, Start, Update
from distkv.wire.value_requests import SetValue

HERE = Path(["p"])
NETWORK = bytes(8)


def new_replica() -> Replica:
    start = Start(1.7e9, 1)
    settings = core_settings(NodeName("me"), "me:1", start, alone=True, init_value=b"\x01", network_id=NETWORK)
    return Replica(settings, Random(0))


def replica_with(*events: Event) -> Replica:
    """A ready node that has these events of others."""
    replica = new_replica()
    replica.begin(0, 1.7e9)
    hear(replica, *events)
    return replica


def hear(replica: Replica, *events: Event) -> None:
    for one in events:
        replica.store.replay(EventRecord(one, 1.7e9))


def event(
    node: str, tick: int, kind: Kind = Kind.SET, value: bytes = b"\x02", path: Path = HERE, tock: int = 50, *older: Link
) -> Event:
    chain = ((NodeName(node), Tick(tick)), *older)
    return Event(path, kind, value if kind is Kind.SET else b"", chain, Tock(tock), 0.0)


A = event("a", 2, value=b"\x0a", tock=53)
B = event("b", 2, value=b"\x0b", tock=52)
C = event("c", 2, value=b"\x0c", tock=51)
"""Three that do not know one another; A wins."""
GONE_A, GONE_B, GONE_C = (event(one.node, 2, Kind.DELETE, tock=one.tock) for one in (A, B, C))


def restore(replica: Replica, loser: Link, head: Link | None = None) -> Ready:
    return replica.step(2, 1.7e9, LocalDecision(Restore(1, loser, head)))


def dismiss(replica: Replica, loser: Link, head: Link | None = None) -> Ready:
    return replica.step(2, 1.7e9, LocalDecision(Dismiss(1, loser, head)))


def written(ready: Ready) -> Event:
    assert isinstance(ready.reply, WriteDone), ready.reply
    assert ready.reply.event is not None
    return ready.reply.event


def held(replica: Replica, path: Path = HERE) -> tuple[bytes | None, list[Link]]:
    """The value of the path, and its open losers."""
    entry = replica.tree.get(path)
    assert entry is not None
    return entry.head.value if entry.is_live else None, [loser.link for loser in entry.losers]


# -- what is written ----------------------------------------------------------------------------------------------


def test_restored_loser_is_the_value_again_and_its_conflict_is_over() -> None:
    replica = replica_with(A, B)
    restore(replica, B.link)
    assert held(replica) == (B.value, [])


def test_dismissed_loser_leaves_the_value_and_its_conflict_is_over() -> None:
    replica = replica_with(A, B)
    dismiss(replica, B.link)
    assert held(replica) == (A.value, [])


@pytest.mark.parametrize("decide", [restore, dismiss])
def test_decision_names_the_winner_then_the_loser_whatever_the_chain_length(decide: object) -> None:
    assert callable(decide)
    a, b = (event(one.node, 2, Kind.SET, one.value, HERE, one.tock, *_long_chain(one.node)) for one in (A, B))
    made = written(decide(replica_with(a, b), b.link))
    assert made.chain[1:3] == (a.link, b.link)
    assert made.truncated


def _long_chain(name: str) -> list[Link]:
    return [(NodeName(f"{name}{number}"), Tick(1)) for number in range(10)]


def test_decision_leaves_other_losers_open() -> None:
    replica = replica_with(A, B, C)
    restore(replica, C.link)
    assert held(replica) == (C.value, [B.link])


def test_decision_is_told_to_the_others_and_logged() -> None:
    replica = replica_with(A, B)
    ready = restore(replica, B.link)
    made = written(ready)
    assert [record.event for record in ready.records if isinstance(record, EventRecord)] == [made]
    assert [message.events for message in ready.messages if isinstance(message, Update)] == [(made,)]
    assert [(change.event, set(change.closed)) for change in ready.changes] == [(made, {A, B})]


def test_decision_shows_what_was_there_before() -> None:
    reply = restore(replica_with(A, B), B.link).reply
    assert isinstance(reply, WriteDone)
    assert reply.prev is not None
    assert reply.prev.value == A.value


def test_restoring_a_deletion_deletes() -> None:
    replica = replica_with(A, GONE_B)
    assert written(restore(replica, B.link)).kind is Kind.DELETE
    assert held(replica) == (None, [])


def test_dismissing_where_a_deletion_won_deletes_again() -> None:
    replica = replica_with(GONE_A, B)
    assert written(dismiss(replica, B.link)).kind is Kind.DELETE
    assert held(replica) == (None, [])


def test_restoring_names_deletions_that_nobody_was_told_of() -> None:
    """They lost to a deletion; with a value as the winner they would be listed."""
    replica = replica_with(GONE_A, B, GONE_C)
    restore(replica, B.link)
    assert held(replica) == (B.value, [])


# -- a loser that this node wrote itself --------------------------------------------------------------------------


def with_own_loser() -> tuple[Replica, Event]:
    """`me` wrote, then heard that A won, and that C lost too."""
    replica = replica_with()
    reply = replica.step(1, 1.7e9, LocalSet(SetValue(1, HERE, b"\x0e"))).reply
    assert isinstance(reply, WriteDone)
    assert reply.event is not None
    tock = reply.event.tock
    hear(replica, event("a", 2, value=A.value, tock=tock + 5))
    hear(replica, event("c", 2, value=C.value, tock=tock - 1))
    return replica, reply.event


@pytest.mark.parametrize("decide", [restore, dismiss])
def test_own_loser_stays_open_when_another_one_is_decided_about(decide: object) -> None:
    assert callable(decide)
    replica, mine = with_own_loser()
    ready = decide(replica, C.link)
    assert held(replica)[1] == [mine.link]
    assert any(isinstance(record, LifeRecord) for record in ready.records)
    assert written(ready).tick >> COUNT_BITS == replica.life != 0


def test_own_loser_can_be_decided_about_itself_without_a_new_life() -> None:
    replica, mine = with_own_loser()
    restore(replica, mine.link)
    assert held(replica) == (mine.value, [C.link])
    assert replica.life == 0


def test_second_decision_of_that_kind_needs_no_further_life() -> None:
    replica, _ = with_own_loser()
    dismiss(replica, C.link)
    life = replica.life
    hear(replica, event("d", 2, tock=40))
    dismiss(replica, (NodeName("d"), Tick(2)))
    assert replica.life == life


# -- what is refused ----------------------------------------------------------------------------------------------


def refused(ready: Ready) -> RequestError:
    assert [record for record in ready.records if isinstance(record, EventRecord | LifeRecord)] == []
    assert ready.messages == []
    assert isinstance(ready.reply, RequestError)
    return ready.reply


@pytest.mark.parametrize("decide", [restore, dismiss])
def test_decision_about_what_is_closed_is_refused(decide: object) -> None:
    assert callable(decide)
    replica = replica_with(A, B)
    restore(replica, B.link)
    error = refused(decide(replica, B.link))
    assert isinstance(error, NotFoundError)
    assert str(error).startswith("b:2 is no open conflict any more")


def test_decision_about_a_change_never_heard_of_is_refused() -> None:
    error = refused(restore(replica_with(A), (NodeName("x"), Tick(7))))
    assert isinstance(error, NotFoundError)
    assert "x:7 is not known here" in str(error)


def test_decision_about_the_winner_is_refused() -> None:
    error = refused(restore(replica_with(A, B), A.link))
    assert isinstance(error, NotFoundError)
    assert "a:2 is what p holds" in str(error)


def test_decision_about_a_deletion_that_lost_to_one_is_refused() -> None:
    error = refused(dismiss(replica_with(GONE_A, GONE_B), B.link))
    assert isinstance(error, NotFoundError)
    assert "b:2 deleted p, and so did what won" in str(error)


def test_decision_about_what_has_the_winners_value_is_refused() -> None:
    replica = replica_with(A, event("b", 2, value=A.value, tock=52))
    error = refused(restore(replica, B.link))
    assert isinstance(error, NotFoundError)
    assert "b:2 gave p the value that it has, and so did what won: there is nothing to decide" in str(error)


def test_write_of_a_losers_value_settles_it() -> None:
    """Whoever wrote it, and whether he knew the loser (docs/protocol, OPEN-4)."""
    replica = replica_with(A, B)
    assert replica.tree.conflict_count == 1
    hear(replica, event("c", 3, Kind.SET, B.value, HERE, 60, A.link))
    assert held(replica)[1] == [B.link]
    assert replica.tree.conflict_count == 0
    hear(replica, event("c", 4, Kind.SET, C.value, HERE, 61))
    assert replica.tree.conflict_count == 1


def test_decision_about_a_reserved_path_is_refused() -> None:
    replica = replica_with()
    path = Path([None, "node", "a"])
    hear(replica, event("a", 7, tock=61, path=path), event("b", 7, tock=60, path=path))
    (loser,) = replica.tree.open_losers()
    error = refused(restore(replica, loser.link))
    assert isinstance(error, NotFoundError)
    assert str(error).startswith("b:7 is no conflict to decide about: it is a change of a path that belongs to")


@pytest.mark.parametrize("decide", [restore, dismiss])
def test_decision_on_condition_of_another_winner_is_refused(decide: object) -> None:
    assert callable(decide)
    replica = replica_with(A, B, event("d", 2, Kind.SET, b"\x0d", HERE, 54, A.link))
    error = refused(decide(replica, B.link, A.link))
    assert isinstance(error, ChainMismatchError)
    assert str(error) == "p is at d:2, the condition says a:2"


def test_decision_on_condition_of_the_winner_is_carried_out_also_where_a_deletion_won() -> None:
    replica = replica_with(GONE_A, B)
    restore(replica, B.link, A.link)
    assert held(replica) == (B.value, [])


def test_node_that_is_not_ready_refuses_decisions() -> None:
    replica = new_replica()
    assert isinstance(refused(restore(replica, A.link)), NotReadyError)


@pytest.mark.parametrize(("decide", "ttl"), [(dismiss, 60.0), (restore, None)])
def test_decision_writes_a_value_with_the_ttl_that_it_had(
    decide: Callable[[Replica, Link], Ready], ttl: float | None
) -> None:
    winner = ExpiringEvent(HERE, b"\x0a", A.chain, A.tock, 0.0, False, 60.0)
    replica = replica_with(winner, B)
    assert written(decide(replica, B.link)).ttl == ttl
