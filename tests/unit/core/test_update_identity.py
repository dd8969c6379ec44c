"""Who a store is: ticks, tocks, lives, the network, the registry, and what of it survives a restart."""

from __future__ import annotations

import math
from random import Random

import pytest

from distkv.core.registry import LIFE_STEP, LIVES_SPARE, NETWORK_PATH, NetworkIdentity, Registration, node_path
from distkv.core.update import TOCK_AHEAD, TOCK_MARGIN, Store
from distkv.errors import WrongDirectoryError
from distkv.model.event import COUNT_BITS, LIFE_MAX, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.wire.message import CeilingRecord, EventRecord, KnownRecord, LifeRecord, LostRecord, Record, ResetRecord
from distkv.wire.values import pack_value, unpack_value

ME, OTHER = NodeName("me"), NodeName("other")
HERE = Path(("p",))
LIFE = 1 << 32


def store_in(life: int = 0) -> Store:
    store = Store(ME, 5)
    store.own.begin_life(life)
    return store


def said(node: NodeName, tick: int, tock: int, path: Path = HERE, value: object = 1) -> Event:
    return Event(path, Kind.SET, pack_value(value), ((node, Tick(tick)),), Tock(tock), 0.0)


def replayed(*records: Record) -> Store:
    store = Store(ME, 5)
    for record in records:
        store.replay(record)
    store.replayed()
    return store


def test_log_of_another_node_is_refused() -> None:
    with pytest.raises(WrongDirectoryError, match="belongs to the node other, not to me"):
        replayed(LifeRecord(OTHER, 4))


# -- ticks and tocks ----------------------------------------------------------------------------------------------


def test_ticks_of_a_life_count_from_one() -> None:
    """The count begins anew in each life (docs/protocol, TICK-2)."""
    store = store_in(3)
    ticks = [store.write(HERE, Kind.SET, b"\x01", 0.0).event.tick for _ in range(3)]
    assert ticks == [3 * LIFE + 1, 3 * LIFE + 2, 3 * LIFE + 3]


def test_write_is_above_every_tock_heard() -> None:
    """The tock is the Lamport clock of the network (docs/protocol, TOCK-1)."""
    store = store_in()
    store.remote(said(OTHER, 1, 900))
    assert store.write(HERE, Kind.SET, b"\x01", 0.0).event.tock == 901


def test_tock_of_a_duplicate_counts_too() -> None:
    store = store_in()
    store.learn_known({OTHER: Ranges([(1, 2)])})
    store.remote(said(OTHER, 1, 900))
    assert store.tock == 900


@pytest.mark.parametrize(("written", "left"), [(0, LIFE - 2), (LIFE - 3, 1), (LIFE - 2, 0)])
def test_life_is_used_up_one_tick_before_the_next_life(written: int, left: int) -> None:
    store = store_in(1)
    event = Event(HERE, Kind.SET, b"\x01", ((ME, Tick(LIFE + 1 + written)),), Tock(1), 0.0)
    store.replay(EventRecord(event, 0.0))
    assert store.own.ticks_left == left


# -- the tock's ceiling -------------------------------------------------------------------------------------------


def test_first_ceiling_is_far_ahead() -> None:
    store = store_in()
    assert store.raise_ceiling(False) == [CeilingRecord(Tock(TOCK_AHEAD))]
    assert store.raise_ceiling(False) == []


@pytest.mark.parametrize(
    ("tock", "committing", "is_due"),
    [
        (TOCK_AHEAD // 2 - 1, True, False),
        (TOCK_AHEAD // 2, True, True),
        (TOCK_AHEAD // 2, False, False),
        (TOCK_AHEAD - TOCK_MARGIN - 1, False, False),
        (TOCK_AHEAD - TOCK_MARGIN, False, True),
    ],
)
def test_ceiling_rises_before_it_is_reached(tock: int, committing: bool, is_due: bool) -> None:
    store = store_in()
    store.raise_ceiling(False)
    store.tock = Tock(tock)
    assert store.raise_ceiling(committing) == ([CeilingRecord(Tock(tock + TOCK_AHEAD))] if is_due else [])


def test_restart_goes_on_at_the_ceiling() -> None:
    assert replayed(CeilingRecord(Tock(5000))).tock == 5000


def test_restart_goes_on_above_a_tock_that_passed_the_ceiling() -> None:
    assert replayed(CeilingRecord(Tock(5)), EventRecord(said(OTHER, 1, 900), 0.0)).tock == 900


# -- lives --------------------------------------------------------------------------------------------------------


def founded() -> Store:
    store = store_in()
    store.found_network(b"12345678", pack_value("root"), 1000.0)
    return store


@pytest.mark.parametrize(
    ("started", "life"),
    [(1500.5, 500), (1000.0, 1), (1e300, LIFE_MAX - LIVES_SPARE)],
)
def test_next_life_is_the_network_age_in_seconds(started: float, life: int) -> None:
    assert founded().registry.next_life(OTHER, started, Random(0)) == life


@pytest.mark.parametrize("started", [999.9, 3.0, -1e308])
def test_life_by_a_clock_that_stands_before_the_network_is_not_given_twice(started: float) -> None:
    registry, rng = founded().registry, Random(0)
    first, second = (registry.next_life(OTHER, started, rng) for _ in range(2))
    assert min(first, second) > 0
    assert first != second


def test_next_life_is_above_a_life_heard_in_a_tick() -> None:
    store = founded()
    store.hear_ticks([(OTHER, [Tick(700 * LIFE + 1)])])
    assert 700 < store.registry.next_life(OTHER, 1500.0, Random(0)) <= 700 + LIFE_STEP


def test_next_life_is_above_a_registered_life() -> None:
    store = founded()
    store.register(OTHER, 900, "h:1", 0.0)
    assert 900 < store.registry.next_life(OTHER, 1500.0, Random(0)) <= 900 + LIFE_STEP


def test_lives_are_left_above_that_of_a_clock_that_shows_nonsense() -> None:
    store = founded()
    store.hear_ticks([(OTHER, [Tick((LIFE_MAX - LIVES_SPARE) * LIFE + 1)])])
    assert LIFE_MAX - LIVES_SPARE < store.registry.next_life(OTHER, 1e300, Random(0)) < LIFE_MAX - LIVES_SPARE // 2


def test_word_that_the_last_life_is_taken_leads_to_one_that_nobody_heard_of() -> None:
    store = founded()
    store.hear_ticks([(OTHER, [Tick(500 * LIFE + 1), Tick(LIFE_MAX * LIFE + 1)])])
    assert store.registry.next_life(OTHER, 1500.0, Random(0)) == 501


def test_own_life_goes_on_upwards_when_the_last_one_is_said_to_be_taken() -> None:
    store = founded()
    store.own.begin_life(700)
    store.hear_ticks([(ME, [Tick(LIFE_MAX * LIFE + 1)])])
    assert store.registry.next_life(ME, 1500.0, Random(0), mine=700) == 701


def test_life_behind_the_last_one_is_a_low_one_that_nobody_heard_of() -> None:
    store = founded()
    store.own.begin_life(LIFE_MAX)
    store.hear_ticks([(ME, [Tick(LIFE + 1), Tick(LIFE_MAX * LIFE + 1)])])
    assert store.registry.next_life(ME, 1500.0, Random(0), mine=LIFE_MAX) == 2


def test_lower_life_is_one_that_the_disk_lived() -> None:
    store = store_in(9)
    store.own.begin_life(2)
    assert store.own.first_life == 2


def test_registration_in_the_last_life_is_followed_by_a_lower_one() -> None:
    store = founded()
    store.remote(said(OTHER, 1, 900, node_path(ME), {"life": LIFE_MAX, "addr": "h:1", "since": 1.0}))
    store.register(ME, store.registry.next_life(ME, 1500.0, Random(0), mine=0), "me:1", 0.0)
    assert store.registry.nodes[ME].life == 500


def test_next_life_without_a_network_is_above_life_zero() -> None:
    assert Store(ME, 5).registry.next_life(ME, 1500.0, Random(0)) == 1


def test_begun_life_is_recorded_and_starts_its_ticks() -> None:
    store = Store(ME, 5)
    assert store.own.begin_life(4) == [LifeRecord(ME, 4)]
    assert (store.own.life, store.own.tick) == (4, 4 * LIFE)


# -- network and registry -----------------------------------------------------------------------------------------


def test_founding_writes_network_and_root() -> None:
    store = founded()
    root = store.live(ROOT)
    assert root is not None
    assert (root.value, store.has_data) == (pack_value("root"), True)
    assert store.registry.network == NetworkIdentity(b"12345678", 1000.0)


def test_store_without_a_life_has_no_data() -> None:
    store = Store(ME, 5)
    assert not store.has_data
    store.remote(said(OTHER, 1, 1, NETWORK_PATH, {"network": b"12345678", "created": 1.0}))
    assert not store.has_data


@pytest.mark.parametrize(
    "value",
    [1, {}, {"network": "text", "created": 1.0}, {"network": b"12345678", "created": math.inf}, {"network": b"1"}],
)
def test_network_entry_that_is_none_is_not_believed(value: object) -> None:
    store = Store(ME, 5)
    store.remote(said(OTHER, 1, 1, NETWORK_PATH, value))
    assert store.registry.network is None


def test_network_is_kept_when_its_entry_is_overwritten_by_nonsense() -> None:
    store = founded()
    store.remote(said(OTHER, 1, 99, NETWORK_PATH, "nonsense"))
    assert store.registry.network == NetworkIdentity(b"12345678", 1000.0)


def test_registered_node_is_in_the_registry() -> None:
    """And so for everybody who holds its entry (docs/protocol, REG-1)."""
    store = store_in()
    store.register(OTHER, 7, "host:1", 5.0)
    head = store.tree.head(Path((None, "node", OTHER)))
    assert head is not None
    assert unpack_value(head.value) == {"life": 7, "addr": "host:1", "since": 5.0}
    assert store.registry.nodes == {OTHER: Registration(7, "host:1", 5.0)}


def test_of_two_registrations_the_youngest_life_counts_though_it_lost() -> None:
    store = store_in()
    store.remote(said(NodeName("x"), 1, 5, node_path(OTHER), {"life": 3, "addr": "old:1", "since": 1.0}))
    store.remote(said(NodeName("y"), 1, 4, node_path(OTHER), {"life": 8, "addr": "new:1", "since": 1.0}))
    assert store.registry.nodes[OTHER].addr == "new:1"


def test_closed_registration_counts_no_more() -> None:
    store = store_in()
    store.remote(said(NodeName("x"), 1, 5, node_path(OTHER), {"life": 3, "addr": "old:1", "since": 1.0}))
    store.remote(said(NodeName("y"), 1, 4, node_path(OTHER), {"life": 8, "addr": "new:1", "since": 1.0}))
    records, closed = store.learn_known({NodeName("y"): Ranges([(1, 2)])})
    assert (records, len(closed)) == ([KnownRecord({NodeName("y"): Ranges([(1, 2)])})], 1)
    assert store.registry.nodes[OTHER].addr == "old:1"


@pytest.mark.parametrize(
    "value",
    [
        "text",
        {"life": -1, "addr": "h:1", "since": 1.0},
        {"life": LIFE_MAX + 1, "addr": "h:1", "since": 1.0},
        {"life": 1, "addr": "h:1", "since": math.nan},
        {"life": 1, "addr": 5, "since": 1.0},
    ],
)
def test_registration_that_is_none_leaves_the_registry(value: object) -> None:
    store = store_in()
    store.register(OTHER, 7, "host:1", 5.0)
    store.remote(said(ME, 2, 99, node_path(OTHER), value))
    assert store.registry.nodes == {}


def test_reserved_entry_whose_bytes_are_no_value_is_not_believed() -> None:
    store = store_in()
    store.remote(Event(node_path(OTHER), Kind.SET, b"\xc1", ((OTHER, Tick(1)),), Tock(1), 0.0))
    store.remote(Event(NETWORK_PATH, Kind.SET, b"\xc1", ((OTHER, Tick(2)),), Tock(1), 0.0))
    assert (store.registry.nodes, store.registry.network) == ({}, None)


def test_deleted_registration_leaves_the_registry() -> None:
    store = store_in()
    store.register(OTHER, 7, "host:1", 5.0)
    store.write(node_path(OTHER), Kind.DELETE, b"", 6.0)
    assert store.registry.nodes == {}


@pytest.mark.parametrize("path", [(None, "node", 5), (None, "node"), (None, "other", "a"), (None, "node", "a", "b")])
def test_other_reserved_paths_register_nobody(path: tuple[str | int | None, ...]) -> None:
    store = store_in()
    store.remote(said(OTHER, 1, 1, Path(path), {"life": 3, "addr": "h:1", "since": 1.0}))
    assert store.registry.nodes == {}


# -- records ------------------------------------------------------------------------------------------------------


def test_nothing_new_has_no_record() -> None:
    store = store_in()
    store.learn_known({OTHER: Ranges([(1, 3)])})
    assert store.learn_known({OTHER: Ranges([(1, 3)])}) == ([], ())
    assert store.mark_lost({OTHER: Ranges([(1, 3)])}) == []


def test_hearing_says_whether_a_tick_is_higher() -> None:
    store = store_in()
    assert store.hear_ticks([(OTHER, [Tick(3)])])
    assert not store.hear_ticks([(OTHER, [Tick(2), Tick(3)])])


def test_reset_forgets_all_but_the_tock() -> None:
    store = founded()
    store.remote(said(OTHER, 1, 900))
    assert store.reset() == [ResetRecord()]
    assert (len(store.tree), store.own.life, store.own.tick, store.tock) == (0, None, 0, 900)
    assert (store.registry.network, store.registry.nodes) == (None, {})


def test_restart_after_a_reset_is_empty() -> None:
    event = EventRecord(said(OTHER, 1, 900), 0.0)
    store = replayed(LifeRecord(ME, 4), event, ResetRecord())
    assert (len(store.tree), store.own.life, store.has_data) == (0, None, False)


def test_restart_knows_its_last_tick() -> None:
    store = replayed(LifeRecord(ME, 4), EventRecord(said(ME, 4 * LIFE + 9, 1), 0.0))
    assert store.own.tick == 4 * LIFE + 9


def test_restart_in_a_new_life_does_not_go_back_to_a_tick_of_the_old_one() -> None:
    store = replayed(LifeRecord(ME, 4), EventRecord(said(ME, 2 * LIFE + 9, 1), 0.0))
    assert store.own.tick == 4 * LIFE


def test_restart_remembers_what_was_known() -> None:
    store = replayed(KnownRecord({OTHER: Ranges([(1, 4)])}))
    assert store.remote(said(OTHER, 2, 1)).changed is False


def test_restart_remembers_what_was_lost_in_every_life() -> None:
    lost = {OTHER: Ranges([(1, 4), (7 * LIFE + 1, 7 * LIFE + 3)])}
    assert replayed(LostRecord(lost)).tree.ledger.lost() == lost


def test_own_change_that_comes_back_is_counted_at_once_as_after_a_restart() -> None:  # seed 1803
    tick = Tick((3 << COUNT_BITS) + 7)
    live, again = Store(ME, 5), Store(ME, 5)
    for store in (live, again):
        store.own.begin_life(3)
    event = Event(Path(["x"]), Kind.SET, b"\x01", ((ME, tick),), Tock(9), 0.0)
    live.remote(event)
    again.replay(EventRecord(event, 0.0))
    assert live.own.tick == again.own.tick == tick
