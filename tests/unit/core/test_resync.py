"""Equal ticks and different values: what no ledger can mend is compared path by path (docs/protocol, 'Last resort')."""

from __future__ import annotations

import pytest

from distkv.core.ready import AskEvents, AskPages, PeerAnswered, PeerDone, PeerOffered
from distkv.core.resync import AGAIN_CLOCKS, SUSPECTS_MAX, DigestResync
from distkv.core.update import Store
from distkv.errors import PeerError
from distkv.model.event import Event, Kind, NodeName, Tick, Tock, value_hash
from distkv.model.pages import Page, share_of
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tree import Tree
from distkv.sim.network import NetworkFaults
from distkv.wire.message import EventRecord, PullEnd
from tests.fleet import Fleet, grown

pytestmark = pytest.mark.slow

CLOCK_MS = 5000
A, B = NodeName("a"), NodeName("b")
OURS = (1, b"12345678")


def told_superseded(fleet: Fleet, name: str, by: str, count: int) -> None:
    """A node hears that the last writes of another one are superseded, and never sees them."""
    last = fleet[by].tick
    fleet.step(name, PeerOffered(fleet[by].maps()))
    ask = fleet.asked[-1][2].id
    known = {NodeName(by): Ranges([(last - count + 1, last + 1)])}
    fleet.step(name, PeerAnswered(ask, PullEnd(known, {})))
    fleet.step(name, PeerDone(ask))


def differing(*names: str, count: int = 3) -> Fleet:
    """All hold the ticks of a's last writes, but only a holds their values."""
    fleet = grown(*names)
    for number in range(1500):
        fleet.set("a", f"same.{number}", number)
    fleet.run(3 * CLOCK_MS)
    fleet.partition(["a"], names[1:])
    for number in range(count):
        fleet.set("a", f"x.{number}", number)
    for name in names[1:]:
        told_superseded(fleet, name, "a", count)
    fleet.heal()
    for name in names[1:]:
        assert fleet[name].tree.ledger.hash() == fleet["a"].tree.ledger.hash()
        assert fleet[name].tree.digest != fleet["a"].tree.digest
    return fleet


def asks(fleet: Fleet, kind: type[AskPages | AskEvents], since_ms: int) -> list[AskPages | AskEvents]:
    return [ask.what for at, _, ask in fleet.asked if at >= since_ms and isinstance(ask.what, kind)]


# -- among nodes --------------------------------------------------------------------------------------------------


def test_nodes_that_hold_the_same_ticks_end_with_the_same_values() -> None:
    fleet = differing("a", "b", "c")
    assert fleet.run_until(fleet.is_converged, 12 * CLOCK_MS)
    assert fleet["b"].tree.get(Path(["x", "2"])) is not None
    assert fleet.notes["digest_differs"] > 0


def test_both_sides_get_what_they_lack() -> None:
    fleet = differing("a", "b")
    fleet.partition(["a"], ["b"])
    fleet.set("b", "y", 1)
    told_superseded(fleet, "a", "b", 1)
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 12 * CLOCK_MS)
    assert fleet["a"].tree.get(Path(["y"])) is not None


def test_only_what_differs_is_moved() -> None:
    fleet = differing("a", "b", count=3)
    began_ms = fleet.now_ms + 1
    assert fleet.run_until(fleet.is_converged, 12 * CLOCK_MS)
    moved = [ask.ranges for ask in asks(fleet, AskEvents, began_ms) if isinstance(ask, AskEvents)]
    assert sum(len(ranges) for wanted in moved for ranges in wanted.values()) == 3


def test_deletions_take_part() -> None:
    fleet = grown("a", "b")
    fleet.set("a", "gone", 0)
    fleet.run(3 * CLOCK_MS)
    fleet.partition(["a"], ["b"])
    fleet.set("a", "gone", None)
    told_superseded(fleet, "b", "a", 1)
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 12 * CLOCK_MS)
    gone = fleet["b"].tree.get(Path(["gone"]))
    assert gone is not None
    assert not gone.is_live


def test_what_was_taken_whatever_the_ledger_says_is_there_after_a_restart() -> None:
    fleet = differing("a", "b")
    assert fleet.run_until(fleet.is_converged, 12 * CLOCK_MS)
    fleet.crash("a")
    fleet.crash("b")
    fleet.start("b", up=False)
    assert fleet["b"].tree.get(Path(["x", "2"])) is not None


def test_comparison_that_breaks_off_begins_again() -> None:
    fleet = differing("a", "b")
    fleet.faults = NetworkFaults(breaks=0.4)
    assert fleet.run_until(lambda: fleet.notes["resynced"] > 0, 60 * CLOCK_MS)
    fleet.faults = NetworkFaults()
    assert fleet.run_until(fleet.is_converged, 12 * CLOCK_MS)


def test_node_from_which_others_must_learn_does_not_look_again_and_again() -> None:
    fleet = differing("a", "b")
    fleet.network.cut.add(("a", "b"))  # b hears nothing of a's
    began_ms = fleet.now_ms
    fleet.run(40 * CLOCK_MS)
    assert len(asks(fleet, AskPages, began_ms)) <= 2 * (1 + 40 // AGAIN_CLOCKS)


def test_ordinary_work_raises_no_alarm() -> None:
    fleet = grown("a", "b", "c", faults=NetworkFaults(loss=0.2, update_loss=0.3, delay_ms=(1, 300)))
    for number in range(300):
        fleet.set("abc"[number % 3], f"x.{number % 7}", number)
        fleet.run(200)
    fleet.run(10 * CLOCK_MS)
    assert fleet.notes["digest_differs"] == 0


# -- the machine --------------------------------------------------------------------------------------------------


def test_difference_that_lasts_half_a_clock_is_an_alarm() -> None:
    machine = DigestResync(CLOCK_MS)
    found = [machine.differed(OURS, 2, now_ms) for now_ms in (0, CLOCK_MS // 2 - 1, CLOCK_MS // 2)]
    assert found == [False, False, True]


def test_difference_between_other_digests_is_another_one() -> None:
    machine = DigestResync(CLOCK_MS)
    machine.differed(OURS, 2, 0)
    assert not machine.differed(OURS, 3, CLOCK_MS)
    assert not machine.differed((5, OURS[1]), 2, CLOCK_MS)


def test_many_digests_do_not_keep_out_one_that_lasts() -> None:
    machine = DigestResync(CLOCK_MS)
    for theirs in range(SUSPECTS_MAX):
        machine.differed(OURS, 100 + theirs, 0)
    assert [machine.differed(OURS, 2, now_ms) for now_ms in (0, CLOCK_MS)] == [False, True]


def test_one_comparison_at_a_time() -> None:
    machine = DigestResync(CLOCK_MS)
    assert machine.begin(A, 2, 0) is not None
    assert machine.begin(B, 3, 0) is None
    machine.end(is_whole=True)
    assert machine.begin(B, 3, 0) is not None


def test_comparison_that_brought_nothing_is_not_repeated_soon() -> None:
    machine = DigestResync(CLOCK_MS)
    machine.differed(OURS, 2, 0)
    machine.begin(A, 2, 0)
    machine.end(is_whole=True)
    times = CLOCK_MS, (AGAIN_CLOCKS - 1) * CLOCK_MS, (AGAIN_CLOCKS + 1) * CLOCK_MS
    assert [machine.differed(OURS, 2, now_ms) for now_ms in times] == [False, False, True]


def test_stretches_that_differ_are_looked_into_path_by_path() -> None:
    machine, tree = DigestResync(CLOCK_MS), Tree()
    machine.begin(A, 2, 0)
    middle = Path(["m"])
    machine.page_came(Page(middle, 0), tree)
    machine.page_came(Page(None, 7), tree)
    assert machine.next_ask() == AskPages(middle, None, 1)
    machine.page_came(Page(Path(["x"]), 7, {A: Ranges([(4, 5)])}), tree)
    machine.page_came(Page(None, 0), tree)
    assert machine.next_ask() == AskEvents({A: Ranges([(4, 5)])})
    assert machine.next_ask() is None


def test_answer_that_broke_off_ends_the_comparison() -> None:
    fleet = differing("a", "b")
    assert fleet.run_until(lambda: bool(asks(fleet, AskPages, 0)), 12 * CLOCK_MS)
    _, name, ask = next(row for row in fleet.asked if isinstance(row[2].what, AskPages))
    ready = fleet.step(name, PeerDone(ask.id, PeerError("broken")))
    assert "resynced" in [note.id for note in ready.notes]


def test_deletion_where_nothing_is_does_not_come_back() -> None:
    """(docs/protocol, SYNC-4)"""
    store, path = Store(NodeName("me"), 5), Path(["k"])
    deletion = Event(path, Kind.DELETE, b"", ((NodeName("a"), Tick(2)),), Tock(9), 0.0)
    assert store.release(deletion, B) == []  # it may have been purged here
    store.remote(Event(path, Kind.SET, b"\x01", ((NodeName("a"), Tick(1)),), Tock(8), 0.0))
    assert store.release(deletion, B)


def test_event_that_a_purged_deletion_knew_does_not_come_back() -> None:
    store, path = Store(NodeName("me"), 5), Path(["k"])
    deletion = Event(path, Kind.DELETE, b"", ((B, Tick(1)), (A, Tick(2))), Tock(9), 0.0)
    store.remote(deletion)
    assert store.purge(path)
    store.remote(Event(path, Kind.SET, b"\x01", ((NodeName("c"), Tick(1)),), Tock(5), 0.0))  # it comes late
    known = Event(path, Kind.SET, b"\x02", ((A, Tick(2)),), Tock(7), 0.0)
    store.remote(deletion)  # from who has not forgotten it yet: it is not applied again, and says what it knew
    assert store.release(known, B) == []
    assert store.release(Event(path, Kind.SET, b"\x03", ((A, Tick(3)),), Tock(8), 0.0), B)


def test_second_content_of_a_tick_at_another_path_does_not_come() -> None:
    """(docs/protocol, SYNC-6)"""
    store, link = Store(NodeName("me"), 5), (A, Tick(1))
    store.remote(Event(Path(["k"]), Kind.SET, b"\x01", (link,), Tock(5), 0.0))
    assert store.release(Event(Path(["l"]), Kind.SET, b"\x01", (link,), Tock(6), 0.0), B) == []
    assert store.release(Event(Path(["k"]), Kind.SET, b"\x01", (link,), Tock(6), 0.0), B)


# -- two contents of one tick -------------------------------------------------------------------------------------

PLACE = Path(["x"])
LOWER, HIGHER = sorted(
    (Event(PLACE, Kind.SET, value, ((A, Tick(7)),), Tock(9), 0.0) for value in (b"\x01", b"\x02")), key=value_hash
)
"""Two contents of one tick of a; the hash of the second one is above."""


def holding(name: NodeName, event: Event, *, registered: bool = True) -> Store:
    """A node of a network, which has one of them; a belongs to the network, or not any more."""
    store = Store(name, 5)
    store.own.begin_life(0 if name == A else 5)
    store.found_network(b"12345678", b"\x01", 1.0)
    store.register(A if registered else B, 0, "h:1", 1.0)
    store.remote(event)
    return store


def content(store: Store) -> tuple[bytes | None, bool]:
    """What the node shows at the place, and whether digest and ledger are in line with that."""
    event = store.live(PLACE)
    is_in_line = event is store.tree.event((A, Tick(7))) and share_of(store.tree, None, None) == store.tree.digest
    return None if event is None else event.value, is_in_line


def test_writer_keeps_its_own_content_though_another_one_is_higher() -> None:
    """(docs/protocol, SYNC-6)"""
    store = holding(A, LOWER)
    assert store.release(HIGHER, B) == []
    assert content(store) == (LOWER.value, True)


def test_others_take_what_the_writer_holds_though_theirs_is_higher() -> None:
    """What the node of that name holds counts (docs/protocol, ORDER-4, SYNC-6)."""
    store = holding(B, HIGHER)
    assert store.release(LOWER, A)
    store.remote(LOWER)
    assert content(store) == (LOWER.value, True)


def test_two_others_keep_what_they_have_while_the_writer_can_tell() -> None:
    """(docs/protocol, SYNC-6)"""
    store = holding(B, LOWER)
    assert store.release(HIGHER, NodeName("c")) == []
    assert content(store) == (LOWER.value, True)


def test_higher_content_stays_where_no_writer_can_tell_any_more() -> None:
    """(docs/protocol, SYNC-6)"""
    lower, higher = holding(B, LOWER, registered=False), holding(B, HIGHER, registered=False)
    assert lower.release(HIGHER, NodeName("c"))
    lower.remote(HIGHER)
    assert higher.release(LOWER, NodeName("c")) == []
    assert content(lower) == content(higher) == (HIGHER.value, True)


def test_content_that_was_replaced_stays_so_when_the_log_is_replayed() -> None:
    store = holding(B, HIGHER)
    (record,) = store.release(LOWER, A)
    again = holding(B, HIGHER)
    again.replay(record)
    assert again.live(PLACE) is None
    again.replay(EventRecord(LOWER, 1.0))
    assert content(again) == (LOWER.value, True)


def test_open_loser_comes_up_when_what_won_over_it_gives_way() -> None:
    store = holding(B, HIGHER)
    loser = Event(PLACE, Kind.SET, b"\x09", ((NodeName("d"), Tick(1)),), Tock(3), 0.0)
    store.remote(loser)
    store.release(LOWER, A)
    assert store.live(PLACE) is loser
    store.remote(LOWER)
    entry = store.tree.get(PLACE)
    assert entry is not None
    assert (entry.head, entry.losers) == (LOWER, (loser,))
    assert content(store) == (LOWER.value, True)
