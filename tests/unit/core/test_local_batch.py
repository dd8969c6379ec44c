"""Several operations in one step: all or none (docs/client-protocol, 'batch')."""

from __future__ import annotations

from random import Random

import pytest

from distkv.core.client_writes import BatchDone, Found, LocalBatch, LocalSet, WriteDone
from distkv.core.ready import Ready
from distkv.core.replica import Replica
from distkv.errors import ChainMismatchError, ExistsError, NotFoundError, NotReadyError, RequestError
from distkv.model.event import COUNT_BITS, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.sim.told import core_settings
from distkv.wire.message import EventRecord, Start, Update
from distkv.wire.value_requests import GetValue, SetValue

ONE, TWO = b"\x01", b"\x02"
LIFE = 1 << COUNT_BITS


def new_replica() -> Replica:
    return Replica(core_settings(NodeName("me"), "me:1", Start(1.7e9, 1), alone=True, init_value=ONE), Random(0))


def ready_replica(**values: bytes) -> Replica:
    replica = new_replica()
    replica.begin(0, 1.7e9)
    for name, value in values.items():
        replica.step(1, 1.7e9, LocalSet(put(name, value)))
    return replica


def put(name: str | None, value: bytes | None, **conditions: object) -> SetValue:
    return SetValue(0, Path([name]), value, **conditions)  # type: ignore[arg-type]


def read(name: str) -> GetValue:
    return GetValue(0, Path([name]))


def step(replica: Replica, *ops: GetValue | SetValue) -> Ready:
    return replica.step(2, 1.7e9, LocalBatch(ops))


def events(ready: Ready) -> list[Event]:
    return [record.event for record in ready.records if isinstance(record, EventRecord)]


def value_of(replica: Replica, name: str) -> bytes | None:
    entry = replica.tree.get(Path([name]))
    return entry.head.value if entry is not None and entry.is_live else None


def test_writes_of_a_batch_have_consecutive_ticks_and_one_ready() -> None:
    replica = ready_replica(old=ONE)
    last = replica.tick
    ready = step(replica, put("a", ONE), put("old", None), put("b", TWO))
    assert [event.tick for event in events(ready)] == [last + 1, last + 2, last + 3]
    assert [value_of(replica, name) for name in ("a", "old", "b")] == [ONE, None, TWO]


def test_every_write_of_a_batch_is_told_to_others_and_to_watchers() -> None:
    """Each event is broadcast in an update, once (docs/protocol, UPD-1)."""
    ready = step(ready_replica(), put("a", ONE), put("b", TWO))
    told = [message.events for message in ready.messages if isinstance(message, Update)]
    assert told == [(event,) for event in events(ready)]
    assert [change.event for change in ready.changes] == events(ready)


def test_results_stand_in_the_order_of_the_operations() -> None:
    replica = ready_replica(a=ONE)
    first = replica.tree.get(Path(["a"]))
    assert first is not None
    old = first.head
    ready = step(replica, read("a"), put("a", TWO), read("a"), read("none"), put("none", None), put("a2", ONE))
    new, other = events(ready)
    assert ready.reply == BatchDone(
        (Found(old), WriteDone(new, old), Found(new), Found(None), WriteDone(None, None), WriteDone(other, None))
    )


def test_batch_of_reads_writes_nothing() -> None:
    replica = ready_replica(a=ONE)
    last = replica.tick
    assert (events(step(replica, read("a"), read("b"))), replica.tick) == ([], last)


def test_batch_of_nothing_is_done() -> None:
    assert step(ready_replica()).reply == BatchDone(())


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (put("a", TWO, new=True), ExistsError),
        (put("none", TWO, prev=ONE), NotFoundError),
        (put("a", TWO, chain=()), ChainMismatchError),
        (put(None, TWO), RequestError),
        (put("first", TWO), RequestError),
    ],
    ids=["new", "prev", "chain", "reserved", "written twice"],
)
def test_one_refused_operation_refuses_all_and_is_named(bad: SetValue, error: type[RequestError]) -> None:
    replica = ready_replica(a=ONE)
    before = replica.tick, replica.tree.digest
    ready = step(replica, put("first", ONE), read("a"), bad, put("last", ONE))
    assert type(ready.reply) is error
    assert ready.reply.op == 2
    assert str(ready.reply).startswith("op 2: ")
    assert (events(ready), ready.messages, ready.changes) == ([], [], [])
    assert (replica.tick, replica.tree.digest) == before


def test_conditions_are_judged_by_what_was_there_before_the_batch() -> None:
    replica = ready_replica(a=ONE)
    ready = step(replica, put("a", None, prev=ONE), put("b", ONE, new=True), put("c", None))
    assert len(events(ready)) == 2


def test_batch_before_the_node_is_ready_is_refused() -> None:
    assert isinstance(step(new_replica(), put("a", ONE)).reply, NotReadyError)


def test_batch_that_does_not_fit_into_a_life_begins_a_new_one() -> None:
    """Otherwise its ticks would not be consecutive, or run into the bits of the next life (docs/protocol, TICK-5)."""
    replica = ready_replica()
    mine = Event(Path(["x"]), Kind.SET, ONE, ((NodeName("me"), Tick(LIFE - 3)),), Tock(9), 0.0)
    replica.store.replay(EventRecord(mine, 0.0))
    ticks = [event.tick for event in events(step(replica, put("a", ONE), put("b", ONE), put("c", ONE)))][-3:]
    assert ticks == [ticks[0], ticks[0] + 1, ticks[0] + 2]
    assert ticks[0] > LIFE
    assert replica.tick == ticks[-1]
