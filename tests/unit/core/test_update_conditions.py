"""A client's write: what it may ask for, and what a refused one leaves (docs/protocol, 'What a write may ask for')."""

from __future__ import annotations

import pytest

from distkv.core.conditions import refuse_reserved
from distkv.core.update import Store
from distkv.errors import ChainMismatchError, ExistsError, NotFoundError, RequestError, ValueMismatchError
from distkv.model.event import Chain, Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

HERE = Path(("p",))
ONE, TWO = b"\x01", b"\x02"
MY_FIRST: Link = (NodeName("me"), Tick(1))


def store_with(*values: bytes | None) -> Store:
    store = Store(NodeName("me"), 5)
    store.own.begin_life(0)
    for value in values:
        store.local_set(SetValue(1, HERE, value), 0.0)
    return store


def write(store: Store, value: bytes | None = TWO, **conditions: object) -> Event | None:
    """The event written, None when nothing was to do."""
    applied, _ = store.local_set(SetValue(1, HERE, value, **conditions), 0.0)  # type: ignore[arg-type]
    return applied.event if applied else None


def value_of(store: Store) -> bytes | None:
    event = store.live(HERE)
    return event.value if event is not None else None


def test_set_is_the_winner_at_once() -> None:
    store = store_with()
    applied, before = store.local_set(SetValue(1, HERE, ONE), 7.5)
    assert applied is not None
    assert (applied.won, before, applied.event.time, store.live(HERE)) == (True, None, 7.5, applied.event)


def test_set_tells_what_it_replaced() -> None:
    store = store_with(ONE)
    first = store.live(HERE)
    applied, before = store.local_set(SetValue(1, HERE, TWO), 0.0)
    assert applied is not None
    assert (before, applied.closed) == (first, (first,))


def test_path_that_is_written_again_is_kept_once() -> None:
    """Each request brings its path as a new object; a million of them would be a second copy of all names."""
    store = store_with(ONE)
    first = store.live(HERE)
    store.local_set(SetValue(1, Path(("".join(["p"]),)), TWO), 0.0)
    second = store.live(HERE)
    assert first is not None
    assert second is not None
    assert second.path is first.path


@pytest.mark.parametrize("values", [(), (ONE, None)], ids=["never written", "deleted"])
def test_new_takes_a_path_without_value(values: tuple[bytes | None, ...]) -> None:
    store = store_with(*values)
    assert write(store, new=True) is store.live(HERE)
    assert value_of(store) == TWO


@pytest.mark.parametrize(
    ("values", "chain"),
    [((ONE,), (MY_FIRST,)), ((), ()), ((ONE, None), ())],
    ids=["the head", "no entry", "a tombstone"],
)
def test_chain_takes_what_it_names(values: tuple[bytes | None, ...], chain: Chain) -> None:
    store = store_with(*values)
    write(store, chain=chain)
    assert value_of(store) == TWO


def test_prev_takes_the_equal_value() -> None:
    store = store_with(ONE)
    write(store, prev=ONE)
    assert value_of(store) == TWO


def test_prev_deletes_the_equal_value() -> None:
    store = store_with(ONE)
    write(store, None, prev=ONE)
    assert value_of(store) is None


@pytest.mark.parametrize(
    ("values", "conditions", "error", "says"),
    [
        ((ONE,), {"new": True}, ExistsError, "p exists already, written by me:1"),
        ((ONE,), {"chain": ()}, ChainMismatchError, "p is at me:1, the condition says absent"),
        ((ONE,), {"chain": ((NodeName("x"), Tick(1)),)}, ChainMismatchError, "the condition says x:1"),
        ((), {"chain": (MY_FIRST,)}, ChainMismatchError, "p is not there, the condition says me:1"),
        ((ONE, None), {"chain": ((NodeName("me"), Tick(2)),)}, ChainMismatchError, "not there"),
        ((), {"prev": ONE}, NotFoundError, "no value to compare"),
        ((ONE, None), {"prev": ONE}, NotFoundError, "no value to compare"),
        ((ONE,), {"prev": TWO}, ValueMismatchError, "another value"),
        ((ONE,), {"prev": TWO, "idem": True}, ValueMismatchError, "another value"),
    ],
)
def test_condition_that_does_not_hold_changes_nothing(
    values: tuple[bytes | None, ...], conditions: dict[str, object], error: type[RequestError], says: str
) -> None:
    store = store_with(*values)
    before = store.own.tick, store.tock, store.tree.digest, store.tree.ledger.hash()
    with pytest.raises(error, match=says):
        write(store, **conditions)
    assert (store.own.tick, store.tock, store.tree.digest, store.tree.ledger.hash()) == before


@pytest.mark.parametrize("values", [(), (ONE, None)], ids=["never written", "deleted already"])
def test_delete_of_nothing_burns_no_tick(values: tuple[bytes | None, ...]) -> None:
    store = store_with(*values)
    before = store.own.tick, store.tock
    assert store.local_set(SetValue(1, HERE, None), 0.0) == (None, None)
    assert (store.own.tick, store.tock) == before


def test_idem_with_the_same_value_burns_no_tick() -> None:
    store = store_with(ONE)
    assert store.local_set(SetValue(1, HERE, ONE, idem=True), 0.0) == (None, store.live(HERE))
    assert store.own.tick == 1


def test_idem_and_the_condition_of_a_value_do_not_see_the_order_of_keys() -> None:
    here, asked = pack_value({"a": {"x": 1, "y": 2}, "b": 3}), pack_value({"b": 3, "a": {"y": 2, "x": 1}})
    store = store_with(here)
    assert store.local_set(SetValue(1, HERE, asked, idem=True), 0.0)[0] is None
    assert write(store, TWO, prev=asked) is store.live(HERE)


@pytest.mark.parametrize(("here", "asked"), [(1, True), (1, 1.0), (0, False), ("a", b"a"), ([1, 2], [2, 1])])
def test_values_of_other_types_are_others(here: object, asked: object) -> None:
    store = store_with(pack_value(here))
    with pytest.raises(ValueMismatchError):
        store.local_set(SetValue(1, HERE, TWO, prev=pack_value(asked)), 0.0)
    assert write(store, pack_value(asked), idem=True) is store.live(HERE)


@pytest.mark.parametrize(("before", "now"), [(3.0, None), (3.0, 4.0), (3.0, 3.0), (None, 3.0)])
def test_idem_writes_where_the_end_is_another_one(before: float | None, now: float | None) -> None:
    """A value that goes by itself is not the same as one that stays, and who writes it again renews it."""
    store = store_with()
    write(store, ONE, ttl=before)
    event = write(store, ONE, ttl=now, idem=True)
    assert event is store.live(HERE)
    assert event is not None
    assert event.ttl == now


def test_idem_with_another_value_writes() -> None:
    store = store_with(ONE)
    assert write(store, TWO, idem=True) is store.live(HERE)


def test_same_value_without_idem_writes() -> None:
    store = store_with(ONE)
    assert write(store, ONE) is store.live(HERE)
    assert store.own.tick == 2


def test_delete_leaves_no_value() -> None:
    store = store_with(ONE)
    event = write(store, None)
    assert event is not None
    assert (event.kind, event.value, store.live(HERE)) == (Kind.DELETE, b"", None)


def test_write_names_the_unlisted_delete_beside_the_winner() -> None:
    """A delete that lost to a delete stays until the next write names it."""
    store = store_with()
    for name in ("a", "b"):
        store.remote(Event(HERE, Kind.DELETE, b"", ((NodeName(name), Tick(1)),), Tock(3), 0.0))
    event = write(store)
    assert event is not None
    assert event.chain == (MY_FIRST, (NodeName("a"), Tick(1)), (NodeName("b"), Tick(1)))
    assert list(store.tree.open_losers()) == []


def test_write_leaves_a_listed_conflict_open() -> None:
    store = store_with()
    for name, value in (("a", ONE), ("b", TWO)):
        store.remote(Event(HERE, Kind.SET, value, ((NodeName(name), Tick(1)),), Tock(3), 0.0))
    event = write(store)
    assert event is not None
    assert event.chain == (MY_FIRST, (NodeName("a"), Tick(1)))
    assert [loser.node for loser in store.tree.open_losers()] == ["b"]


def test_write_closes_a_loser_that_had_the_value_of_the_winner() -> None:
    """There is nothing to decide (docs/protocol, OPEN-4)."""
    store = store_with()
    for name, value in (("a", {"x": 1, "y": 2}), ("b", {"y": 2, "x": 1})):
        store.remote(Event(HERE, Kind.SET, pack_value(value), ((NodeName(name), Tick(1)),), Tock(3), 0.0))
    assert store.tree.conflict_count == 0
    assert [loser.node for loser in store.tree.open_losers()] == ["b"]
    write(store)
    assert list(store.tree.open_losers()) == []


def test_reserved_paths_are_refused_to_clients() -> None:
    refuse_reserved(HERE)
    with pytest.raises(RequestError, match="belongs to the system"):
        refuse_reserved(Path((None, "node", "a")))
