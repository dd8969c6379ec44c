"""What ends a life, marks a disk as old, or makes a name doubtful (docs/protocol, 'Lives and names').

Knows: what the machine answers.  What a whole node makes of it is in `test_hand_over`, `test_witnesses` and
`test_gossip_names`.
"""

from __future__ import annotations

from random import Random

import pytest

from distkv.core.lives import Consequence, Duty, Keep, Lives, SeekNamesake, SeekWitness
from distkv.core.ready import Note
from distkv.core.registry import node_path, retired_path
from distkv.core.update import Store
from distkv.errors import DuplicateNameError, StaleError
from distkv.model.event import COUNT_BITS, LIFE_MAX, Event, Kind, NodeName, Tick, Tock, first_tick
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.sim.told import core_settings
from distkv.wire.message import EventRecord, Header, LifeRecord, StaleRecord, Start
from distkv.wire.values import pack_value

ME, OTHER = NodeName("me"), NodeName("other")
ADDR, ELSEWHERE = "me:1", "elsewhere:1"
START = Start(100.0, 5)
LIFE = 3
STALE = Keep((StaleRecord(True),))
LAST_TICK = (1 << COUNT_BITS) - 1


def stored(*, other: bool = False) -> Store:
    """A store that belongs to a network, and is registered; perhaps another one is, too."""
    store = Store(ME, 5)
    store.own.begin_life(LIFE)
    store.found_network(b"network!", b"\x01", 0.0)
    store.register(ME, LIFE, ADDR, 0.0)
    if other:
        store.register(OTHER, 7, "other:1", 0.0)
    return store


def lives_of(store: Store, *, restored: bool = False) -> Lives:
    return Lives(core_settings(ME, ADDR, START, restored=restored), store, Random(0))


def registered_by_other(store: Store, life: int, addr: str) -> Event:
    """Somebody registered our name."""
    value = pack_value({"life": life, "addr": addr, "since": 1.0})
    event = Event(node_path(ME), Kind.SET, value, ((OTHER, Tick(1)),), Tock(store.tock + 1), 1.0)
    store.remote(event)
    return event


def retired_by_other(store: Store, name: NodeName, life: int) -> Event:
    event = Event(retired_path(name, life), Kind.SET, pack_value({}), ((OTHER, Tick(1)),), Tock(store.tock + 1), 1.0)
    store.remote(event)
    return event


STOOD_IN = Note("stood_in", {})


def note(why: str, store: Store) -> Note:
    return Note(why, {"tick": store.own.tick})


def header(start: Start | None, life: int = LIFE) -> Header:
    return Header(ME, Tick(9), Tock(9), life, b"network!", start)


# -- the disk -----------------------------------------------------------------------------------------------------


def test_disk_without_others_is_trusted() -> None:
    lives = lives_of(stored())
    assert lives.begin() == []
    assert lives.before_writes() == []


def test_restored_disk_is_marked_at_once() -> None:
    store = stored()
    assert lives_of(store, restored=True).begin() == [STALE]
    assert store.own.is_stale


def test_disk_of_a_retired_life_is_marked_at_once() -> None:
    store = stored()
    store.retire(ME, LIFE, 0.0)
    assert lives_of(store).begin() == [STALE]


def test_damaged_disk_is_marked_and_told() -> None:
    store = stored()
    store.doubt([])
    assert lives_of(store).begin() == [note("damaged", store), STALE]


def test_damaged_disk_without_data_is_only_told() -> None:
    store = Store(ME, 5)
    store.doubt([])
    assert lives_of(store, restored=True).begin() == [note("damaged", store)]


@pytest.mark.parametrize(
    ("is_serving", "duties"),
    [(False, [Duty.HAND_OVER]), (True, [Duty.COMPARE, Duty.BEGIN_LIFE])],
    ids=["before it serves", "while it serves"],
)
def test_old_disk_is_handed_over_or_goes_on_in_a_new_life(is_serving: bool, duties: list[Duty]) -> None:
    store = stored()
    found = lives_of(store).found_stale("rolled_back", is_serving=is_serving)
    assert found == [note("rolled_back", store), STALE, *duties]


def test_reason_is_told_once() -> None:
    lives = lives_of(stored())
    lives.found_stale("rolled_back", is_serving=False)
    assert lives.found_stale("retired", is_serving=False) == [Keep(()), Duty.HAND_OVER]


def test_good_node_that_holds_the_same_clears_the_mark() -> None:
    store = stored(other=True)
    lives = lives_of(store, restored=True)
    lives.begin()
    assert lives.agreed(OTHER, is_good=True) == [Keep((StaleRecord(False),)), Duty.HAND_NOTHING_OVER]
    assert not store.own.is_stale


def test_node_that_is_no_better_clears_the_mark_when_it_is_the_only_other_one() -> None:
    store = stored(other=True)
    store.register(NodeName("third"), 8, "third:1", 0.0)
    lives = lives_of(store, restored=True)
    lives.begin()
    assert [bool(lives.agreed(name)) for name in (OTHER, NodeName("third"))] == [False, True]


def test_disk_that_is_not_marked_needs_no_agreement() -> None:
    assert lives_of(stored(other=True)).agreed(OTHER, is_good=True) == []


def test_old_disk_that_differs_for_half_a_clock_ends_the_node() -> None:
    store = stored(other=True)
    lives = lives_of(store)
    assert lives.differed(OTHER, 0, has_same_ticks=True) == []
    told, error = lives.differed(OTHER, 2500, has_same_ticks=True)
    assert told == Note("stale", {"node": OTHER})
    assert isinstance(error, StaleError)


def test_own_changes_that_others_have_mark_the_disk_in_its_life() -> None:
    store = stored()
    missing = Ranges([(first_tick(LIFE) + 8, first_tick(LIFE) + 9)])
    assert lives_of(store).found_own_missing(missing, is_serving=True) == [Note("own_missing", {}), STALE, Duty.COMPARE]


def test_changes_of_an_earlier_disk_of_our_name_mark_nothing() -> None:
    assert lives_of(stored()).found_own_missing(Ranges([(1, 5)]), is_serving=True) == []


def test_without_a_life_no_own_change_is_missing() -> None:
    assert lives_of(Store(ME, 5)).found_own_missing(Ranges([(1, 5)]), is_serving=False) == []


def test_download_has_the_mark_of_its_sponsor_and_a_life_that_needs_no_witness() -> None:
    store = stored(other=True)
    lives = lives_of(store)
    lives.begin()
    store.reset()
    assert lives.downloading(is_stale=True) == [STALE]
    assert lives.downloaded(9) == [Keep((LifeRecord(ME, 9),))]
    assert (store.own.life, lives.witnesses.is_needed, lives.before_writes()) == (9, False, [])


# -- the life -----------------------------------------------------------------------------------------------------


def test_tick_of_ours_that_we_never_wrote_ends_the_life() -> None:
    store = stored()
    store.hear_ticks([(ME, [Tick(store.own.tick + 1)])])
    assert lives_of(store).before_writes() == [note("rolled_back", store), Duty.BEGIN_LIFE]


def test_life_goes_on_when_all_have_answered_only() -> None:
    store = stored(other=True)
    lives = lives_of(store)
    lives.begin()
    assert lives.before_writes() == [note("unwitnessed", store), Duty.BEGIN_LIFE]
    assert lives.seek_witnesses(0, lambda _: True) == [SeekWitness(OTHER)]
    lives.witnesses.shown(OTHER)
    assert lives.seek_witnesses(1, lambda _: True) == []
    assert lives.before_writes() == []


def test_witnesses_count_when_nothing_is_missing_only() -> None:
    store = stored(other=True)
    store.hear_ticks([(OTHER, [Tick(5)])])
    lives = lives_of(store)
    lives.begin()
    lives.witnesses.shown(OTHER)
    lives.seek_witnesses(0, lambda _: True)
    assert lives.witnesses.is_needed


def test_nobody_is_asked_without_a_transport() -> None:
    lives = lives_of(stored(other=True))
    lives.begin()
    assert lives.seek_witnesses(0, None) == []


def test_life_without_room_for_all_writes_is_not_begun_to_be_filled() -> None:
    store = stored()
    store.own.tick = Tick(first_tick(LIFE) - 1 + LAST_TICK - 2)
    lives = lives_of(store)
    assert [lives.before_writes(count) for count in (2, 3)] == [[], [Duty.BEGIN_LIFE]]


def test_new_life_is_above_all_heard_of_and_registered() -> None:
    """(docs/protocol, TICK-7)"""
    store = stored(other=True)
    lives = lives_of(store)
    lives.begin()
    told, kept, duty = lives.begin_life(50.0)
    assert (told, kept, duty) == (Note("new_life", {"life": 50}), Keep((LifeRecord(ME, 50),)), Duty.REGISTER)
    assert (store.own.life, lives.before_writes()) == (50, [])


def test_where_the_last_life_is_said_to_be_taken_ours_is_above_the_present_one() -> None:
    """(docs/protocol, TICK-8)"""
    store = stored()
    store.own.begin_life(90)
    for name in (ME, OTHER):
        store.hear_ticks([(name, [first_tick(LIFE_MAX)])])
    assert [lives_of(store).next_life(name, 20.0) for name in (OTHER, ME)] == [20, 91]


@pytest.mark.parametrize(("life", "ahead", "is_ours"), [(LIFE, 1, True), (LIFE, 0, False), (LIFE + 1, 1, False)])
def test_event_of_ours_above_our_last_one_shows_an_old_disk(life: int, ahead: int, is_ours: bool) -> None:
    store = stored()
    tick = Tick(store.own.tick + ahead + ((life - LIFE) << COUNT_BITS))
    event = Event(Path(("x",)), Kind.SET, b"\x01", ((ME, tick),), Tock(1), 0.0)
    assert bool(lives_of(store).heard_own(event, is_serving=False)) == is_ours


@pytest.mark.parametrize(("behind", "is_old"), [(LIFE, True), (LIFE - 1, False), (None, False)])
def test_peer_that_says_that_we_went_back_is_believed_for_this_life(behind: int | None, is_old: bool) -> None:
    assert bool(lives_of(stored()).heard_maps(behind, is_serving=False)) == is_old


# -- the name -----------------------------------------------------------------------------------------------------


def test_registered_node_that_becomes_ready_writes_nothing() -> None:
    """The entry of its life has its address (docs/protocol, REG-5)."""
    assert lives_of(stored()).became_ready() == []


def test_node_with_another_address_registers_it() -> None:
    """The entry of its life has another address (docs/protocol, REG-5)."""
    store = stored()
    store.register(ME, LIFE, ELSEWHERE, 0.0)
    assert lives_of(store).became_ready() == [Duty.REGISTER]


def test_node_that_is_not_registered_registers() -> None:
    """There is no entry of its name (docs/protocol, REG-5)."""
    store = Store(ME, 5)
    store.own.begin_life(LIFE)
    assert lives_of(store).became_ready() == [Duty.REGISTER]


def test_node_that_must_register_in_a_life_that_is_in_doubt_begins_another() -> None:
    store = stored(other=True)
    store.register(ME, LIFE, ELSEWHERE, 0.0)
    lives = lives_of(store)
    lives.begin()
    assert lives.became_ready() == [note("unwitnessed", store), Duty.BEGIN_LIFE]


@pytest.mark.parametrize(
    ("addr", "expected"),
    [
        (ADDR, [Duty.BEGIN_LIFE]),
        (ELSEWHERE, [Note("name_claimed", {"addr": ELSEWHERE}), SeekNamesake(ELSEWHERE)]),
    ],
)
def test_name_registered_higher_is_outbid_here_and_asked_for_elsewhere(
    addr: str, expected: list[Consequence]
) -> None:
    store = stored()
    registered_by_other(store, LIFE + 1, addr)
    assert lives_of(store).became_ready() == expected


def test_old_disk_that_becomes_ready_begins_a_life() -> None:
    store = stored()
    lives = lives_of(store)
    lives.found_stale("retired", is_serving=False)
    assert lives.became_ready() == [Duty.BEGIN_LIFE]


@pytest.mark.parametrize("is_serving", [False, True])
def test_later_life_at_our_address_shows_an_old_disk(is_serving: bool) -> None:
    store = stored()
    event = registered_by_other(store, LIFE + 1, ADDR)
    assert lives_of(store).saw_reserved(event, is_serving=is_serving)[:2] == [note("later_life", store), STALE]


def test_later_life_elsewhere_is_looked_for_by_who_serves() -> None:
    store = stored()
    event = registered_by_other(store, LIFE + 1, ELSEWHERE)
    lives = lives_of(store)
    assert lives.saw_reserved(event, is_serving=False) == [STOOD_IN, STALE, Duty.HAND_OVER]
    assert lives.saw_reserved(event, is_serving=True)[1:] == [SeekNamesake(ELSEWHERE)]


@pytest.mark.parametrize(
    ("life", "addr", "is_other"),
    [
        (LIFE + 1, ELSEWHERE, True),
        (LIFE + 9, ELSEWHERE, True),
        (LIFE + 5, ELSEWHERE, False),
        (LIFE, ELSEWHERE, False),
        (LIFE - 1, ELSEWHERE, False),
        (LIFE + 1, ADDR, False),
        (LIFE + 1, "", False),
    ],
)
def test_whoever_had_our_name_since_our_download_was_asked_for_us(life: int, addr: str, is_other: bool) -> None:
    """Whatever our own life is by now; who is told so goes on in it (docs/protocol, NAME-9, NAME-10)."""
    store = stored()
    store.own.begin_life(LIFE + 5)
    store.register(ME, LIFE + 5, ADDR, 0.0)
    found = lives_of(store).saw_reserved(registered_by_other(store, life, addr), is_serving=True)
    assert (found[:3] == [STOOD_IN, STALE, Duty.COMPARE]) == is_other
    assert store.own.is_stale == is_other
    assert not store.own.is_life_over


@pytest.mark.parametrize(
    ("name", "life", "is_ours"),
    [(ME, LIFE, True), (ME, LIFE - 1, False), (ME, LIFE + 1, True), (OTHER, LIFE, False)],
)
def test_retirement_counts_for_lives_of_this_disk(name: NodeName, life: int, is_ours: bool) -> None:
    store = stored()
    event = retired_by_other(store, name, life)
    assert bool(lives_of(store).saw_reserved(event, is_serving=False)) == is_ours


def test_earlier_life_of_this_disk_counts_too() -> None:
    store = stored()
    store.own.begin_life(LIFE + 5)
    store.register(ME, LIFE + 5, ADDR, 0.0)
    event = retired_by_other(store, ME, LIFE)
    assert lives_of(store).saw_reserved(event, is_serving=False)[0] == note("retired", store)


def test_without_a_life_nothing_is_about_us() -> None:
    store = Store(ME, 5)
    event = registered_by_other(store, LIFE, ADDR)
    assert lives_of(store).saw_reserved(event, is_serving=False) == []


@pytest.mark.parametrize("addr", ["", ADDR])
def test_nobody_is_looked_for_at_our_own_address(addr: str) -> None:
    assert lives_of(stored()).name_claimed(addr) == []


@pytest.mark.parametrize("start", [None, START])
def test_our_own_answer_is_no_namesake(start: Start | None) -> None:
    assert lives_of(stored()).namesake_met(header(start)) == []


@pytest.mark.parametrize("start", [Start(99.0, 9), Start(100.0, 4)])
def test_of_two_starts_the_later_one_ends_and_of_equal_ones_the_larger_id(start: Start) -> None:
    (error,) = lives_of(stored()).namesake_met(header(start))
    assert isinstance(error, DuplicateNameError)


@pytest.mark.parametrize(("life", "duties"), [(LIFE, [Duty.BEGIN_LIFE]), (LIFE + 1, [])])
def test_earlier_start_leaves_a_life_that_a_copy_shares(life: int, duties: list[Duty]) -> None:
    found = lives_of(stored()).namesake_met(header(Start(101.0, 1), life))
    assert found == [Note("name_twice", {"start": 101.0}), *duties]


def test_name_is_taken_back_once_from_an_address_where_nobody_is() -> None:
    store = stored()
    registered_by_other(store, LIFE + 1, ELSEWHERE)
    lives = lives_of(store)
    assert lives.namesake_silent("third:1", is_serving=True) == []
    assert lives.namesake_silent(ELSEWHERE, is_serving=False) == []
    expected = [note("name_lost", store), STALE, Duty.COMPARE, Duty.BEGIN_LIFE]
    assert lives.namesake_silent(ELSEWHERE, is_serving=True) == expected
    assert lives.namesake_silent(ELSEWHERE, is_serving=True) == []


def test_name_that_is_ours_is_not_taken_back() -> None:
    assert lives_of(stored()).namesake_silent(ADDR, is_serving=True) == []


# -- what it leaves to others -------------------------------------------------------------------------------------


def test_records_of_a_life_are_what_a_restart_replays() -> None:
    store, again = stored(), Store(ME, 5)
    before = [EventRecord(event, 0.0) for event in store.tree.present(store.tree.ledger.held())]
    lives = lives_of(store)
    found = [*lives.found_stale("rolled_back", is_serving=False), *lives.begin_life(50.0)]
    kept = [record for what in found if isinstance(what, Keep) for record in what.records]
    for record in [LifeRecord(ME, LIFE), *before, *kept]:
        again.replay(record)
    assert (again.own.life, again.own.tick, again.own.is_stale, again.own.is_life_over) == (
        store.own.life,
        store.own.tick,
        store.own.is_stale,
        store.own.is_life_over,
    )
