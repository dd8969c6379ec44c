"""Values that go by themselves (docs/protocol.rst, TTL-1 to TTL-5).

Knows: the machine, and a few replicas in virtual time.
"""

from __future__ import annotations

import pytest

from distkv.core.ageing import DUE_MAX, ROOM, Expiry
from distkv.core.client_writes import LocalSet
from distkv.core.ready import AGEING_BYTES, Ready, Wake
from distkv.core.update import Store
from distkv.model.event import Event, ExpiringEvent, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.wire.message import EventRecord, Update
from distkv.wire.records import encode_record
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value
from tests.fleet import Fleet, grown

CLOCK_MS = 5000
HERE = Path(("x",))


def store_for(fleet: Fleet, name: str, seconds: float, value: object = 1) -> Ready:
    """A client stores a value for some time."""
    return fleet.step(name, LocalSet(SetValue(1, HERE, pack_value(value), ttl=seconds)))


def shown(fleet: Fleet) -> list[Kind | None]:
    """What each node has at the path."""
    heads = [host.live.tree.head(HERE) for host in fleet.running()]
    return [None if head is None else head.kind for head in heads]


def head(fleet: Fleet, name: str) -> Event:
    found = fleet[name].tree.head(HERE)
    assert found is not None
    return found


# -- a fleet ------------------------------------------------------------------------------------------------------


def test_value_goes_everywhere_when_its_time_is_over_on_its_writer() -> None:
    fleet = grown("a", "b", "c")
    store_for(fleet, "b", 3.0)
    fleet.run(2999)
    assert shown(fleet) == [Kind.SET] * 3
    fleet.run(200)
    assert shown(fleet) == [Kind.EXPIRE] * 3
    assert {head(fleet, name).link for name in "abc"} == {(NodeName("b"), fleet["b"].tick)}
    assert fleet.is_converged()


def test_value_of_a_writer_that_is_gone_goes_after_the_same_time_once_more() -> None:
    fleet = grown("a", "b", "c")
    store_for(fleet, "b", 20.0)
    fleet.run(100)
    fleet.crash("b")
    fleet.run(39_800)
    assert shown(fleet) == [Kind.SET] * 2
    assert fleet.run_until(lambda: shown(fleet) == [Kind.EXPIRE] * 2, 3 * CLOCK_MS)
    assert fleet.notes["expired"] == 1


def test_one_node_alone_ends_what_another_one_wrote() -> None:
    fleet = grown("a", "b")
    store_for(fleet, "b", 3.0)
    fleet.run(100)
    fleet.crash("b")
    fleet.transport("a", up=False)
    fleet.run(3000)
    assert shown(fleet) == [Kind.SET]
    fleet.run(3000)
    assert shown(fleet) == [Kind.EXPIRE]


def test_time_counts_anew_from_a_restart() -> None:
    fleet = grown("a", "b")
    store_for(fleet, "a", 12.0)
    fleet.run(11_000)
    fleet.crash("a")
    fleet.start("a")
    began_ms = fleet.now_ms
    assert fleet.run_until(lambda: head(fleet, "a").kind is Kind.EXPIRE, 60_000)
    assert 12_000 <= fleet.now_ms - began_ms <= 12_010


def test_renewal_puts_the_end_off() -> None:
    fleet = grown("a", "b")
    for _ in range(20):
        store_for(fleet, "a", 3.0)
        fleet.run(2000)
    assert shown(fleet) == [Kind.SET] * 2
    assert fleet.notes["expired"] == 0
    fleet.run(1200)
    assert shown(fleet) == [Kind.EXPIRE] * 2


def test_value_without_a_ttl_in_the_place_of_one_that_has_one_stays() -> None:
    fleet = grown("a", "b")
    store_for(fleet, "a", 3.0)
    fleet.run(100)
    fleet.set("b", "x", 2)
    fleet.run(60_000)
    assert shown(fleet) == [Kind.SET] * 2


def test_deleted_value_does_not_expire() -> None:
    fleet = grown("a", "b")
    store_for(fleet, "a", 3.0)
    fleet.set("a", "x", None)
    fleet.run(60_000)
    assert shown(fleet) == [Kind.DELETE] * 2


def test_renewal_that_nobody_heard_of_in_time_beats_the_expiry() -> None:
    fleet = grown("a", "b")
    store_for(fleet, "a", 10.0)
    fleet.run(500)
    fleet.partition("a", "b")
    store_for(fleet, "b", 100.0, value="renewed")
    fleet.run(10_000)
    assert shown(fleet) == [Kind.EXPIRE, Kind.SET]
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 60_000)
    assert shown(fleet) == [Kind.SET] * 2
    assert not list(fleet["a"].tree.open_losers())


def test_joiner_knows_the_ttl_of_what_it_downloads() -> None:
    fleet = grown("a", "b")
    store_for(fleet, "a", 1000.0)
    fleet.start("c")
    assert fleet.run_until(fleet.is_converged, 30_000)
    assert [head(fleet, name).ttl for name in "abc"] == [1000.0] * 3


def test_expiry_is_an_own_change_that_others_are_told_of() -> None:
    fleet = grown("a", "b")
    store_for(fleet, "a", 3.0)
    tick = fleet["a"].tick
    fleet.run(2999)
    ready = fleet.step("a", Wake())
    assert ready.messages == []
    fleet.faults.update_loss = 1.0
    fleet.run(1)
    assert fleet["a"].tick == tick + 1
    update = [message for at_ms, name, message in fleet.sent if isinstance(message, Update)][-1]
    assert update.events[0].kind is Kind.EXPIRE


def test_node_without_room_on_its_disk_ends_nothing_until_there_is_some() -> None:
    fleet = grown("a")
    store_for(fleet, "a", 3.0)
    fleet.hosts["a"].disk.fill()
    fleet.run(30_000)
    assert shown(fleet) == [Kind.SET]
    fleet.hosts["a"].disk.make_space()
    fleet.run(CLOCK_MS)
    assert shown(fleet) == [Kind.EXPIRE]


def test_many_values_that_end_at_once_all_go() -> None:
    fleet = grown("a")
    for number in range(3 * DUE_MAX):
        fleet.step("a", LocalSet(SetValue(1, Path((f"p{number}",)), b"\x01", ttl=3.0)))
    live = fleet["a"].tree.live_count
    fleet.run(3010)
    assert live - fleet["a"].tree.live_count == 3 * DUE_MAX


# -- the event ----------------------------------------------------------------------------------------------------


def test_values_with_long_paths_that_end_at_once_take_no_more_room_than_was_asked_for() -> None:
    fleet = grown("a")
    paths = [Path((str(number), "x" * 4000)) for number in range(DUE_MAX)]
    for path in paths:
        fleet.step("a", LocalSet(SetValue(1, path, b"\x01", ttl=1.0)))
    written = []
    for _ in paths:
        ready = fleet.step("a", Wake())
        written.append(sum(len(encode_record(record)) for record in ready.records))
        fleet.agenda.now_ms += 1000
    assert max(written) <= AGEING_BYTES + 8192
    assert all((found := fleet["a"].tree.head(path)) is not None and found.kind is Kind.EXPIRE for path in paths)


@pytest.mark.parametrize("seen_tock", [0, 500])
def test_expiry_is_one_tock_above_what_it_ends_whatever_else_was_heard(seen_tock: int) -> None:
    store = Store(NodeName("a"), 5)
    store.own.begin_life(0)
    value = ExpiringEvent(HERE, b"\x01", ((NodeName("b"), Tick(1)),), Tock(7), 0.0, False, 3.0)
    store.remote(value)
    store.tock = Tock(max(store.tock, seen_tock))
    applied = store.expire(value, 1.0)
    assert (applied.event.tock, applied.won, applied.event.older) == (8, True, ((NodeName("b"), Tick(1)),))
    later = store.write(HERE, Kind.SET, b"\x02", 2.0)
    assert later.won
    assert later.event.tock > max(8, seen_tock)


def test_event_without_a_ttl_has_no_room_for_one() -> None:
    value = Event(HERE, Kind.SET, b"\x01", ((NodeName("a"), Tick(1)),), Tock(1), 0.0)
    assert value.ttl is None
    with pytest.raises(AttributeError):
        value.ttl = 1.0
    assert value.__sizeof__() < value_at(1).__sizeof__()


def test_replayed_value_has_its_ttl() -> None:
    store, again = Store(NodeName("a"), 5), Store(NodeName("a"), 5)
    store.own.begin_life(0)
    event = store.write(HERE, Kind.SET, b"\x01", 0.0, ttl=2.5).event
    again.replay(EventRecord(event, 0.0))
    found = again.tree.head(HERE)
    assert found is not None
    assert found.ttl == 2.5


# -- the machine --------------------------------------------------------------------------------------------------


def value_at(tick: int, path: Path = HERE) -> ExpiringEvent:
    return ExpiringEvent(path, b"\x01", ((NodeName("a"), Tick(tick)),), Tock(tick), 0.0, False, 1.0)


def test_values_are_due_in_order_of_their_time_and_not_before() -> None:
    tree, expiry = Tree(), Expiry()
    values = [value_at(tick, Path((str(tick),))) for tick in (1, 2, 3)]
    for value, after_s in zip(values, (3.0, 1.0, 2.0), strict=True):
        tree.apply(value)
        expiry.came(value, after_s, tree, 100)
    assert expiry.wake_ms() == 1100
    assert list(expiry.due(tree, 1099)) == []
    assert list(expiry.due(tree, 2100)) == [values[1], values[2]]
    assert expiry.wake_ms() == 3100


def test_renewals_of_a_year_take_no_more_room_than_those_of_an_hour() -> None:
    tree, expiry = Tree(), Expiry()
    for tick in range(1, 20 * ROOM):
        value = value_at(tick)
        tree.apply(value)
        expiry.came(value, 1e9, tree, tick)
    assert expiry.count <= 2 * ROOM
