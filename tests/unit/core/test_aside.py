"""What becomes of inputs whose step failed (docs/protocol.rst, ASIDE-1 to ASIDE-5)."""

from __future__ import annotations

from functools import cache

import attrs
import pytest

from distkv.core.aside import ASIDE_MAX, SUSPECTED_S, SUSPECTS_MAX, TEXT_MAX, Asides, Failed
from distkv.core.client_writes import LocalBatch, LocalDecision, LocalSet, ReplaceChange, RetireNode, WriteDone
from distkv.core.ready import (
    FollowBegan,
    FollowTold,
    HeardMessage,
    Input,
    LineLent,
    MembersSeen,
    NodeTold,
    PeerAnswered,
    PeerDone,
    ServiceAsked,
    SetAside,
    TransportUp,
    Wake,
)
from distkv.errors import NotFoundError, NotReadyError, RequestError
from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.wire.decisions import Dismiss
from distkv.wire.message import EventBatch, Header, Ping, PingLink, PullEnd, Update
from distkv.wire.value_requests import SetValue
from tests.fleet import Fleet, grown

B = NodeName("b")
HEADER = Header(B, Tick(9), Tock(9), 0, b"network", None)


@cache
def event(tick: int, path: str = "lamp") -> Event:
    return Event(Path([path]), Kind.SET, b"\x01", ((B, Tick(tick)),), Tock(tick), 1.0)


def told(*ticks: int) -> FollowTold:
    return FollowTold(1, tuple(map(event, ticks)), {})


def ping(tock: int) -> HeardMessage:
    header = attrs.evolve(HEADER, tock=Tock(tock))
    return HeardMessage(Ping(header, (PingLink(B, Tick(9), Tock(tock)),), "", State.READY, 0, b""))


def of_b(_: Input) -> str:
    return "b"


def fail(asides: Asides, what: Input, now: float = 1.0) -> Failed | None:
    return asides.failed(what, of_b, "KeyError: 'x'", "tree.py:7", now)


def twice(*inputs: Input) -> Asides:
    asides = Asides()
    for what in inputs:
        fail(asides, what)
        fail(asides, what)
    return asides


def taken(asides: Asides, what: Input) -> list[list[int]]:
    """The ticks in each step that comes of an input."""
    parts = asides.sift(what, of_b).parts
    return [[one.tick for one in part.events] for part in parts if isinstance(part, FollowTold)]


# -- once, and twice


def test_change_that_failed_once_is_tried_again() -> None:
    """(docs/protocol, ASIDE-1)"""
    asides = Asides()
    found = fail(asides, told(5))
    assert found is not None
    assert (found.id, found.is_aside, found.count, str(found.path)) == ("b:5", False, 1, "lamp")
    assert asides.sift(told(5), of_b).parts == (told(5),)
    assert (asides.aside, asides.holes) == ([], [])


def test_change_that_failed_twice_reaches_no_step_however_it_comes() -> None:
    asides = twice(told(5))
    assert [one.id for one in asides.holes] == ["b:5"]
    assert taken(asides, told(4, 5, 6)) == [[4, 6]]
    assert asides.sift(told(4, 5, 6), of_b).gone == ((B, 5),)
    heard = HeardMessage(Update(HEADER, (event(5), event(6))))
    assert asides.sift(heard, of_b).parts == (HeardMessage(Update(HEADER, (event(6),))),)
    pulled = PeerAnswered(3, EventBatch((event(5),)))
    assert asides.sift(pulled, of_b).parts == (PeerAnswered(3, EventBatch(())),)


def test_second_failure_counts_on_another_way_too() -> None:
    asides = Asides()
    fail(asides, told(5))
    found = fail(asides, HeardMessage(Update(HEADER, (event(5),))))
    assert found is not None
    assert found.is_aside


def test_another_content_of_its_tick_is_taken() -> None:
    """Anybody can gossip in the name of a node: what it wrote itself must not be kept out by that."""
    asides = twice(told(5))
    assert asides.sift(FollowTold(1, (event(5, "door"),), {}), of_b).gone == ()


def test_change_that_went_well_is_suspected_no_more() -> None:
    asides = Asides()
    fail(asides, told(5))
    assert asides.taken(told(5))
    assert not asides.entries
    assert not asides.taken(told(5))


def test_of_several_changes_each_becomes_a_step_and_the_one_that_fails_is_known() -> None:
    asides = Asides()
    found = fail(asides, told(4, 5, 6))
    assert found is not None
    assert (found.id, found.is_aside) == ("b:4+2", False)
    assert taken(asides, told(4, 5, 6, 7)) == [[4], [5], [6], [7]]
    assert asides.taken(told(4))
    second = fail(asides, told(5))
    assert second is not None
    assert (second.id, second.is_aside, second.count) == ("b:5", True, 2)
    assert [*asides.entries] == ["b:5"]
    assert taken(asides, told(4, 5, 6, 7)) == [[4, 6, 7]]


def test_what_else_is_said_beside_changes_is_said_once() -> None:
    asides = Asides()
    fail(asides, told(4, 5))
    known = {B: Ranges([(1, 3)])}
    parts = asides.sift(FollowTold(1, (event(4), event(5)), known), of_b).parts
    assert [part.known for part in parts if isinstance(part, FollowTold)] == [known, {}]


def test_message_is_known_by_its_kind_and_sender_whatever_it_says() -> None:
    asides = Asides()
    fail(asides, ping(8))
    found = fail(asides, ping(9))
    assert found is not None
    assert (found.id, found.is_aside, found.is_hole) == ("ping/b", True, False)
    sifted = asides.sift(ping(10), of_b)
    assert (sifted.parts, sifted.refused) == ((), found)


def test_other_than_a_change_counts_as_new_after_a_day() -> None:
    asides = Asides()
    fail(asides, ping(8))
    found = fail(asides, ping(9), now=2.0 + SUSPECTED_S)
    assert found is not None
    assert (found.count, found.is_aside) == (1, False)


SET = SetValue(1, Path(["lamp"]), b"\x01")


@pytest.mark.parametrize(
    ("what", "id"),
    [
        (LocalSet(SET), "set/lamp"),
        (LocalSet(SetValue(1, Path(["lamp"]), None)), "delete/lamp"),
        (LocalBatch((SET,)), "batch/0195684c"),
        (LocalDecision(Dismiss(1, (B, Tick(5)))), "decision/b:5"),
        (ReplaceChange(Path(["lamp"]), (B, Tick(5)), Tock(1)), "drop/b:5"),
        (RetireNode(B, force=False), "retire/b"),
        (NodeTold(B, 0, "tokens", b""), "tokens/b"),
        (ServiceAsked("tokens", 1, {}), "tokens/client"),
        (PeerAnswered(1, PullEnd({}, {})), "events/b"),
        (FollowBegan(1), "link/b"),
        (LineLent(B), "link/b"),
        (FollowTold(1, (), {B: Ranges([(1, 3)])}), "link/b"),
        (HeardMessage(Update(HEADER, ())), "update/b"),
        (MembersSeen({}), "members/agent"),
    ],
)
def test_each_input_of_others_has_a_name_and_is_refused_in_the_end(what: Input, id: str) -> None:
    asides = twice(what)
    refused = asides.sift(what, of_b).refused
    assert refused is not None
    assert refused.id == id


@pytest.mark.parametrize("what", [Wake(), TransportUp(), PeerDone(1), SetAside(())])
def test_input_of_the_node_itself_is_never_set_aside(what: Input) -> None:
    asides = twice(what)
    assert not asides.entries
    assert asides.sift(what, of_b).parts == (what,)


def test_value_that_is_to_end_is_known_by_its_change_and_is_no_hole() -> None:
    asides = Asides()
    for _ in range(2):
        found = asides.failed(Wake(), of_b, "KeyError: 'x'", "tree.py:7", 1.0, event(5))
    assert found is not None
    assert (found.id, found.is_aside, found.is_hole) == ("end/b:5", True, False)
    assert asides.resting == [(B, 5)]
    assert asides.sift(told(5), of_b).gone == ()
    asides.retry("end/b:5")
    assert asides.resting == []


def test_change_of_the_log_is_left_out_when_it_failed_twice() -> None:
    asides = Asides()
    for count in (1, 2):
        assert not asides.is_left_out(event(5))
        found = asides.not_replayed(event(5), "KeyError: 'x'", "tree.py:7", 1.0)
        assert found is not None
        assert found.count == count
    assert asides.is_left_out(event(5))


def test_change_of_the_log_that_went_well_is_suspected_no_more() -> None:
    asides = Asides()
    asides.not_replayed(event(5), "KeyError: 'x'", "tree.py:7", 1.0)
    assert asides.replayed(event(5))
    assert not asides.replayed(event(5))
    assert not asides.entries


# -- limits


def test_one_more_than_the_limit_ends_the_node_as_before() -> None:
    """(docs/protocol, ASIDE-5)"""
    asides = twice(*(told(tick) for tick in range(1, ASIDE_MAX + 1)))
    fail(asides, told(500))
    assert fail(asides, told(500)) is None
    assert len(asides.aside) == ASIDE_MAX
    assert taken(asides, told(500)) == [[500]]


def test_oldest_suspect_makes_room() -> None:
    asides = Asides()
    for tick in range(1, SUSPECTS_MAX + 2):
        fail(asides, told(tick))
    assert len(asides.entries) == SUSPECTS_MAX
    assert "b:1" not in asides.entries


# -- what people and releases decide


def test_what_is_tried_again_is_set_aside_at_its_first_failure() -> None:
    asides = twice(told(5))
    asides.retry("b:5")
    assert taken(asides, told(5)) == [[5]]
    found = fail(asides, told(5))
    assert found is not None
    assert (found.is_aside, found.count) == (True, 3)


def test_another_release_tries_once_more() -> None:
    kept = [*twice(told(5)).entries.values()]
    assert [one.id for one in Asides(kept, "").aside] == ["b:5"]
    asides = Asides(kept, "2")
    assert not asides.aside
    found = fail(asides, told(5))
    assert found is not None
    assert (found.is_aside, found.release) == (True, "2")


@pytest.mark.parametrize("id", ["b:6", "b:7", ""])
def test_name_of_nothing_is_refused(id: str) -> None:
    asides = twice(told(5))
    fail(asides, told(6))
    for ask in (asides.retry, asides.droppable):
        with pytest.raises(NotFoundError, match="nothing is set aside under"):
            ask(id)


def test_message_cannot_be_dropped() -> None:
    with pytest.raises(RequestError, match="ping/b is no change"):
        twice(ping(8)).droppable("ping/b")


def test_change_that_is_held_is_set_aside_no_more() -> None:
    asides = twice(told(5), told(6), ping(8))
    held: list[Link] = [(B, Tick(5))]
    assert [one.id for one in asides.forget_held(held.__contains__)] == ["b:5"]
    assert [one.id for one in asides.aside] == ["b:6", "ping/b"]


# -- a node that lacks one


def lacking() -> tuple[Fleet, Link]:
    """Node c has left out what b wrote at `lamp`."""
    fleet = grown("a", "b", "c")
    fleet.faults.update_loss = 1.0
    fleet.set("b", "lamp", 1)
    link: Link = (B, fleet["b"].tick)
    fleet.step("c", SetAside((link,)))
    fleet.faults.update_loss = 0.0
    return fleet, link


def test_change_that_is_left_out_is_missing_and_never_held() -> None:
    """(docs/protocol, ASIDE-3)"""
    fleet, (node, tick) = lacking()
    ledger = fleet["c"].tree.ledger
    assert tick in ledger.missing()[node]
    assert (ledger.missing(but_lost=True), ledger.has((node, tick))) == ({}, False)
    assert not fleet.is_converged()


def test_stranger_makes_no_gap() -> None:
    fleet = grown("a", "b")
    fleet.step("a", SetAside(((NodeName("z"), Tick(3)), (B, Tick(1 << 40)))))
    assert fleet["a"].tree.ledger.is_whole


def test_dropped_change_is_superseded_on_all_nodes_and_all_agree() -> None:
    """(docs/protocol, ASIDE-4)"""
    fleet, link = lacking()
    ready = fleet.step("c", ReplaceChange(Path(["lamp"]), link, Tock(fleet["b"].tock)))
    assert isinstance(ready.reply, WriteDone)
    assert ready.reply.event is not None
    assert fleet.run_until(fleet.is_converged, 60_000)
    assert all(fleet[name].tree.ledger.has(link) and fleet[name].tree.event(link) is None for name in "abc")
    heads = [fleet[name].tree.head(Path(["lamp"])) for name in "abc"]
    assert [head and head.kind for head in heads] == [Kind.DELETE] * 3


def test_dropped_change_leaves_the_value_that_is_here() -> None:
    fleet = grown("a", "b", "c")
    fleet.set("a", "lamp", "old")
    fleet.run(1000)
    fleet.faults.update_loss = 1.0
    fleet.set("b", "lamp", "new")
    link: Link = (B, fleet["b"].tick)
    fleet.step("c", SetAside((link,)))
    fleet.faults.update_loss = 0.0
    fleet.step("c", ReplaceChange(Path(["lamp"]), link, Tock(fleet["b"].tock)))
    assert fleet.run_until(fleet.is_converged, 60_000)
    heads = [fleet[name].tree.head(Path(["lamp"])) for name in "abc"]
    assert len({head.value for head in heads if head is not None and head.kind is Kind.SET}) == 1


def test_drop_of_what_is_here_already_writes_nothing() -> None:
    fleet = grown("a", "b")
    fleet.set("b", "lamp", 1)
    fleet.run(1000)
    link: Link = (B, fleet["b"].tick)
    ready = fleet.step("a", ReplaceChange(Path(["lamp"]), link, Tock(1)))
    assert isinstance(ready.reply, WriteDone)
    assert (ready.reply.event, ready.records) == (None, [])


def test_node_that_does_not_serve_drops_nothing() -> None:
    fleet = Fleet()
    fleet.start("a")
    ready = fleet.step("a", ReplaceChange(Path(["lamp"]), (B, Tick(5)), Tock(1)))
    assert isinstance(ready.reply, NotReadyError)


def test_own_path_of_the_system_is_not_dropped() -> None:
    fleet = grown("a", "b")
    ready = fleet.step("a", ReplaceChange(Path([None, "x"]), (B, Tick(500)), Tock(1)))
    assert isinstance(ready.reply, RequestError)


# -- rows of the archive


def failed_row(asides: Asides, path: bytes) -> Failed | None:
    return asides.not_loaded(path, "KeyError: 'x'", "tree.py:7", 1.0)


@pytest.mark.parametrize("path", [b"\x91\xa1a", b"", b"\xff" * 2000])
def test_row_that_cannot_be_loaded_twice_is_left_out(path: bytes) -> None:
    """(docs/protocol, ASIDE-8)"""
    asides = Asides()
    failed_row(asides, path)
    assert not asides.is_row_left_out(path)
    found = failed_row(asides, path)
    assert found is not None
    assert len(found.id) <= TEXT_MAX
    assert asides.is_row_left_out(path)
    assert not asides.is_row_left_out(path + b"b")
    assert (asides.holes, asides.resting) == ([], [])


def test_row_that_was_left_out_is_forgotten_when_all_others_are_loaded() -> None:
    asides = Asides()
    for path in (b"a", b"a", b"b"):
        failed_row(asides, path)
    assert [one.id for one in asides.rows_loaded()] == [f"row/{b'a'.hex()}"]
    assert asides.entries == {}
