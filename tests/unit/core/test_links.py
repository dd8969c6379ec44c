"""What is believed of what comes by a link, and what a link changes: a few replicas in virtual time.

Knows: docs/protocol, 'Links'.  Does not know whom a node follows (`tests/property/test_following`).
"""

from __future__ import annotations

import pytest

from distkv.core.gossip import TICKS_AHEAD
from distkv.core.ready import Ask, AskEvents, FollowBegan, FollowEnded, FollowTold, PeerAnswered
from distkv.errors import LoanOverError, PeerError
from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.sim.network import NetworkFaults
from distkv.wire.message import PullEnd
from tests.fleet import Fleet

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")


def linked(*names: str, **settings: int) -> Fleet:
    """A fleet in which all follow all, directly or not; updates do not come by gossip."""
    fleet = Fleet()
    fleet.start("a", init=1, follow=True, **settings)
    fleet.run(3000)
    for name in names:
        fleet.start(name, follow=True, **settings)
    assert fleet.run_until(fleet.all_ready, 60_000)
    assert fleet.run_until(lambda: all(_is_linked(fleet, name) for name in fleet.members), 60_000)
    fleet.faults.update_loss = 1.0
    return fleet


def _is_linked(fleet: Fleet, name: str) -> bool:
    others = [NodeName(other) for other in fleet.members if other != name]
    return fleet[name].following.unlinked(others) == []


def _follow(fleet: Fleet, name: str, parent: NodeName) -> int:
    return fleet[name].following.parents[parent].follow


def _event(fleet: Fleet, node: NodeName, ahead: int = 1, tock: int = 1) -> Event:
    tick = Tick(fleet["b"].tree.ledger.last(node) + ahead)
    return Event(Path(["x"]), Kind.SET, b"\x01", ((node, tick),), Tock(tock), 1.0, False)


def test_change_comes_by_the_link_within_milliseconds() -> None:
    fleet = linked("b", "c")
    fleet.set("a", "x", 1)
    fleet.run(20)
    assert all(fleet[name].tree.head(Path(["x"])) is not None for name in "abc")
    assert fleet["b"].deliveries.events_linked >= 1
    assert fleet["b"].deliveries.events_pulled == 0


@pytest.mark.parametrize(
    ("event", "note"),
    [
        (lambda fleet: _event(fleet, C), "link_unasked"),
        (lambda fleet: _event(fleet, NodeName("stranger")), "link_unasked"),
        (lambda fleet: _event(fleet, A, TICKS_AHEAD + 1), "tick_jump"),
        (lambda fleet: _event(fleet, A, tock=1 << 60), "tock_jump"),
    ],
    ids=["writer that is not asked for", "stranger", "tick far ahead", "tock far ahead"],
)
def test_what_cannot_be_believed_is_dropped_and_counted(event: object, note: str) -> None:
    fleet = linked("b", "c")
    assert callable(event)
    before = fleet["b"].tree.digest, fleet["b"].tree.ledger.ticks()
    ready = fleet.step("b", FollowTold(_follow(fleet, "b", A), (event(fleet),), {}))
    assert [one.id for one in ready.notes] == [note]
    assert (fleet["b"].tree.digest, fleet["b"].tree.ledger.ticks()) == before
    assert not ready.records
    assert not ready.changes


@pytest.mark.parametrize(
    "known",
    [
        {C: Ranges([(1, 2)])},
        {NodeName("stranger"): Ranges([(1, 2)])},
        {A: Ranges([(TICKS_AHEAD * 2, TICKS_AHEAD * 2 + 1)])},
    ],
    ids=["writer that is not asked for", "stranger", "tick far ahead"],
)
def test_known_ticks_that_cannot_be_believed_are_dropped_and_counted(known: TickRanges) -> None:
    fleet = linked("b", "c")
    before = fleet["b"].tree.ledger.ticks()
    ready = fleet.step("b", FollowTold(_follow(fleet, "b", A), (), known))
    assert [one.id for one in ready.notes] == ["link_unasked"]
    assert fleet["b"].tree.ledger.ticks() == before


def test_known_ticks_are_missing_until_a_pull_brings_what_superseded_them() -> None:
    fleet = linked("b")
    last = fleet["b"].tree.ledger.last(A)
    fleet.step("b", FollowTold(_follow(fleet, "b", A), (), {A: Ranges([(last + 1, last + 3)])}))
    assert fleet["b"].tree.ledger.missing() == {A: Ranges([(last + 1, last + 3)])}


def test_item_of_a_follow_that_is_over_changes_nothing() -> None:
    fleet = linked("b")
    event, follow = _event(fleet, A), _follow(fleet, "b", A)
    fleet.step("b", FollowEnded(follow, PeerError("a:1: broken")))
    ready = fleet.step("b", FollowTold(follow, (event,), {}))
    assert not ready.records
    assert not fleet.step("b", FollowBegan(follow)).follows


@pytest.mark.parametrize(
    ("error", "reason"),
    [(PeerError("a:1: broken"), "a:1: broken"), (LoanOverError("a:1: it can be dialled again"), "")],
)
def test_node_that_lends_no_more_since_it_can_be_dialled_is_no_complaint(error: PeerError, reason: str) -> None:
    fleet = linked("b")
    fleet.step("b", FollowEnded(_follow(fleet, "b", A), error))
    assert fleet["b"].following.parents[A].reason == reason


def test_link_that_breaks_is_counted_and_begun_again_where_it_was() -> None:
    fleet = linked("b")
    fleet.set("a", "x", 1)
    fleet.run(100)
    follow = _follow(fleet, "b", A)
    fleet.step("b", FollowEnded(follow, PeerError("a:1: broken")))
    fleet.set("a", "y", 1)
    fleet.run(1500)
    assert fleet["b"].deliveries.links_lost == 1
    assert fleet["b"].tree.head(Path(["y"])) is not None
    assert fleet["b"].deliveries.events_pulled == 0
    assert _follow(fleet, "b", A) != follow


def test_node_that_is_told_not_to_follows_nobody() -> None:
    fleet = Fleet()
    fleet.start("a", init=1)
    fleet.run(3000)
    fleet.start("b")
    assert fleet.run_until(fleet.all_ready, 60_000)
    fleet.run(5000)
    assert fleet["a"].following.parents == fleet["b"].following.parents == {}


def test_node_that_is_gone_is_followed_no_more() -> None:
    fleet = linked("b", "c")
    fleet.crash("c")
    fleet.run(20_000)
    assert not fleet["a"].following.parents[C].writers


def test_changes_of_who_was_followed_through_a_frozen_node_come_within_five_seconds() -> None:
    fleet = linked("b", "c", fanout=1)
    fleet.run(20_000)
    assert fleet["c"].following.parents[B].writers == {A, B}
    fleet.hosts["b"].pause()
    written_ms, seen_ms = list[int](), dict[int, int]()
    for step in range(1000):
        if step < 800 and step % 10 == 0:
            fleet.set("a", f"x.{len(written_ms)}", 1)
            written_ms.append(fleet.now_ms)
        fleet.run(10)
        for number in range(len(written_ms)):
            if number not in seen_ms and fleet["c"].tree.head(Path(["x", str(number)])) is not None:
                seen_ms[number] = fleet.now_ms
    waited_ms = [seen_ms[number] - at_ms for number, at_ms in enumerate(written_ms)]
    assert max(waited_ms) <= 5000
    assert max(waited_ms[50:]) <= 20  # those from five seconds on
    assert fleet["a"].deliveries.events_pulled == 0


def _told_with_a_hole(fleet: Fleet) -> int:
    """*b* is told ticks of *a* up to 10, without the fifth, which nobody will tell; the last one before."""
    last = fleet["b"].tree.ledger.last(A)
    events = tuple(_event(fleet, A, ahead) for ahead in range(1, 11) if ahead != 5)
    fleet.step("b", FollowTold(_follow(fleet, "b", A), events, {}))
    return last


def test_tick_that_is_missing_below_what_was_told_is_pulled() -> None:
    """The link has gone past it, so it will not bring it (docs/protocol, LINK-14)."""
    fleet = linked("b")
    hole = _told_with_a_hole(fleet) + 5
    fleet.step("b", FollowTold(_follow(fleet, "b", A), (), {}))  # that was all; from now on there is always more
    for _ in range(30):
        fleet.step("b", FollowTold(_follow(fleet, "b", A), (_event(fleet, A),), {}))
        fleet.run(100)
    pulled = [ask.what.ranges for _, name, ask in fleet.asked if name == "b" and isinstance(ask.what, AskEvents)]
    assert any(hole in missing.get(A, Ranges()) for missing in pulled)


@pytest.mark.parametrize("is_left", [False, True])
def test_pull_that_leaves_a_writer_to_a_link_is_not_told_what_is_superseded(is_left: bool) -> None:
    """What superseded it may be among what the link brings (docs/protocol, LINK-15)."""
    fleet = linked("b", "c")
    hole = _event(fleet, C, 1).link
    fleet.faults = NetworkFaults(update_loss=1.0, silence_ms=100_000)
    fleet.partition(["a"], ["b"], ["c"])
    if is_left:
        before = _follow(fleet, "b", A)
        fleet.step("b", FollowEnded(before, PeerError("a:1: broken")))
        assert fleet.run_until(lambda: _follow(fleet, "b", A) != before, 5000)
        fleet.step("b", FollowBegan(_follow(fleet, "b", A)))  # and has not told anything yet
    fleet.step("b", FollowTold(_follow(fleet, "b", C), (_event(fleet, C, 2),), {}))
    fleet.step("b", FollowTold(_follow(fleet, "b", C), (), {}))
    assert fleet.run_until(lambda: _pulls(fleet, "b", hole) != [], 5000)
    pull = _pulls(fleet, "b", hole)[-1]
    fleet.step("b", PeerAnswered(pull.id, PullEnd({C: Ranges.from_ticks([hole[1]])}, {})))
    assert fleet["b"].tree.ledger.is_whole is not is_left


def _pulls(fleet: Fleet, name: str, tick: Link) -> list[Ask]:
    """The questions of a node for a tick."""
    asks = [ask for _, asker, ask in fleet.asked if asker == name and isinstance(ask.what, AskEvents)]
    return [ask for ask in asks if tick[1] in ask.what.ranges.get(tick[0], Ranges())]


def test_follow_begins_at_the_first_hole_and_not_at_what_was_heard() -> None:
    """docs/protocol, LINK-1."""
    fleet = linked("b")
    last = _told_with_a_hole(fleet)
    before = _follow(fleet, "b", A)
    fleet.step("b", FollowEnded(before, PeerError("a:1: broken")))
    assert fleet.run_until(lambda: _follow(fleet, "b", A) != before, 5000)
    assert fleet["b"].following.parents[A].told == {A: last + 4}
