"""What the ground gives each service: entries by key, who is there, and calls between nodes.

Knows: replicas whose services talk, and the echo.  Does not know disks, sockets or a transport.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from distkv.core.ground.call_parts import BODY_BYTES_MAX, KEPT_MS, PART_BYTES
from distkv.core.ground.calls import CHECK_MS
from distkv.core.ground.machine import EntryChanged, NodesChanged
from distkv.core.ground.node_calls import BOOT_SLOT, UNDER_WAY_BYTES, NodeAsked, NodeGaveUp, NodesSilent
from distkv.core.node_footing import CLOSED_MAX
from distkv.core.ready import (
    MembersSeen,
    NodeTold,
    Ready,
    ServiceAsked,
    ServiceContinued,
    ServiceResult,
    ServiceWithdrawn,
    Wake,
)
from distkv.core.registry import Registration, node_path, service_path
from distkv.core.replica import Replica
from distkv.errors import BadValueError, NoSpaceError, PeerError, TooLargeError, UnknownOutcomeError
from distkv.model.event import Event, Kind, NodeName, Tock, first_tick
from distkv.model.path import Path
from distkv.model.service_paths import entry_key
from distkv.wire.calls import CallAnswered
from distkv.wire.declared import pack
from distkv.wire.message import EventRecord, Record, SlotRecord
from distkv.wire.values import pack_value
from tests.profiles import seeds
from tests.proof.core.echo.machine import ECHO, PATIENCE_MS, SILENCE, Echo
from tests.proof.wire.echo import EchoNotes
from tests.unit.core.test_services import WALL, A, B, Fragile, asked, made, serving, step

ONE, TWO, THREE, NEW = (pack_value(value) for value in (1, 2, 3, "new"))


def by_b(path: Path, value: bytes | None, number: int) -> Event:
    kind = Kind.DELETE if value is None else Kind.SET
    return Event(path, kind, value or b"", ((B, first_tick(7) + number),), Tock(50 + number), WALL)


# -- entries ------------------------------------------------------------------------------------------------------


def test_entry_that_is_written_is_told_and_looked_up_in_place() -> None:
    replica, echo, _ = serving()
    ready = step(replica, asked(1, key="x", value=ONE))
    written = [record.event for record in ready.records if isinstance(record, EventRecord)]
    assert (written[-1].path, written[-1].value) == (service_path(ECHO, "x"), ONE)
    assert [what for _, what in echo.inputs if isinstance(what, EntryChanged)] == [EntryChanged("x")]
    assert echo.ground is not None
    assert (echo.ground.entries.versions("x"), [*echo.ground.entries.all_keys()]) == ((ONE,), ["x"])


def test_entry_that_is_deleted_is_among_the_keys_no_more() -> None:
    replica, echo, _ = serving()
    step(replica, asked(1, key="x", value=ONE))
    step(replica, asked(2, key="y", value=TWO))
    step(replica, asked(3, key="x"))
    assert echo.ground is not None
    assert (echo.ground.entries.versions("x"), [*echo.ground.entries.all_keys()]) == ((None,), ["y"])


def test_deletion_of_what_is_not_there_is_no_change() -> None:
    replica, _, _ = serving()
    assert step(replica, asked(1, key="x")).records == []


def test_value_that_cannot_be_stored_comes_back_with_its_purpose() -> None:
    replica, _, _ = serving()
    ready = step(replica, asked(1, key="x", value=b"\xc1"))
    assert (ready.records, [type(answer.result) for answer in ready.answers]) == ([], [BadValueError])


def test_what_another_node_wrote_is_found_when_the_machine_begins() -> None:
    _, _, records = serving()
    echo = Echo()
    made(echo, [*records, EventRecord(by_b(service_path(ECHO, "x"), ONE, 1), WALL)])
    assert echo.ground is not None
    assert echo.ground.entries.versions("x") == (ONE,)
    assert [what for _, what in echo.inputs if isinstance(what, EntryChanged)] == []


def test_entries_at_odds_are_all_found_the_winner_first() -> None:
    _, _, records = serving()
    path, echo = service_path(ECHO, "x"), Echo()
    other = Event(path, Kind.SET, TWO, ((NodeName("c"), first_tick(7)),), Tock(90), WALL)
    made(echo, [*records, EventRecord(by_b(path, ONE, 1), WALL), EventRecord(other, WALL)])
    assert echo.ground is not None
    assert echo.ground.entries.versions("x") == (TWO, ONE)


def at_odds(*values: bytes | None) -> tuple[Replica, Echo]:
    """A node that serves clients, and an entry with these versions, the winner first."""
    _, _, records = serving()
    path, echo = service_path(ECHO, "x"), Echo()
    for number, value in enumerate(reversed(values)):
        kind = Kind.DELETE if value is None else Kind.SET
        link = NodeName(f"n{number}"), first_tick(7)
        records.append(EventRecord(Event(path, kind, value or b"", (link,), Tock(90 + number), WALL), WALL))
    replica, _ = made(echo, records)
    assert echo.ground is not None
    assert echo.ground.entries.versions("x") == values
    return replica, echo


@pytest.mark.parametrize(
    ("closes", "left"),
    [((), (NEW, ONE, TWO)), ((ONE,), (NEW, TWO)), ((ONE, TWO), (NEW,)), ((THREE, NEW), (NEW, ONE, TWO))],
    ids=["none", "one", "all", "what is no loser"],
)
def test_write_replaces_the_winner_and_closes_the_versions_that_it_names(
    closes: tuple[bytes, ...], left: tuple[bytes, ...]
) -> None:
    """OPEN-8."""
    replica, echo = at_odds(THREE, ONE, TWO)
    step(replica, asked(1, key="x", value=NEW, closes=closes))
    assert echo.ground is not None
    assert echo.ground.entries.versions("x") == left


def test_deletion_that_lost_is_closed_as_a_value_is() -> None:
    """OPEN-8."""
    replica, echo = at_odds(ONE, None, TWO)
    step(replica, asked(1, key="x", value=NEW, closes=(None,)))
    assert echo.ground is not None
    assert echo.ground.entries.versions("x") == (NEW, TWO)


def test_deletion_of_what_is_deleted_closes_what_lost_against_that() -> None:
    """OPEN-8."""
    replica, echo = at_odds(None, ONE)
    step(replica, asked(1, key="x", closes=(None, ONE)))
    assert echo.ground is not None
    assert echo.ground.entries.versions("x") == (None,)


def test_write_closes_as_many_versions_as_one_event_has_room_for() -> None:
    """OPEN-8."""
    values = tuple(pack_value(number) for number in range(CLOSED_MAX + 8))
    replica, echo = at_odds(*values)
    ready = step(replica, asked(1, key="x", value=NEW, closes=values))
    written = [record for record in ready.records if isinstance(record, EventRecord)][-1]
    assert len(written.event.chain) == CLOSED_MAX + 2, "itself, the winner, and those"
    assert echo.ground is not None
    assert len(echo.ground.entries.versions("x")) == 8


def test_write_for_which_the_disk_has_no_room_comes_back_with_its_purpose() -> None:
    replica, echo, _ = serving()
    replica.store.data.check_room = full
    ready = step(replica, asked(1, key="x", value=ONE))
    assert ([type(answer.result) for answer in ready.answers], ready.records) == ([NoSpaceError], [])
    assert echo.ground is not None
    assert echo.ground.entries.versions("x") == ()


def test_write_without_a_purpose_asks_for_no_room_because_nobody_would_hear_of_it() -> None:
    replica, echo, _ = serving()
    replica.store.data.check_room = full
    step(replica, asked(1, entry=ONE))
    assert echo.ground is not None
    assert echo.ground.entries.versions("") == (ONE,)


def full(_size: int) -> None:
    raise NoSpaceError("the disk is full")


def test_key_of_two_names_is_written_told_and_found_below_the_first() -> None:
    replica, echo, _ = serving()
    key = entry_key("hall", "x")
    ready = step(replica, asked(1, key=key, value=ONE))
    written = [record.event for record in ready.records if isinstance(record, EventRecord)]
    assert written[-1].path == Path((None, "service", ECHO, "hall", "x"))
    assert [what for _, what in echo.inputs if isinstance(what, EntryChanged)] == [EntryChanged(key)]
    assert echo.ground is not None
    entries = echo.ground.entries
    assert (entries.versions(key), [*entries.all_keys("hall")], [*entries.all_keys()]) == ((ONE,), [key], [])


def test_key_of_two_names_that_is_deleted_is_among_the_keys_no_more() -> None:
    replica, echo, _ = serving()
    step(replica, asked(1, key=entry_key("hall", "x"), value=ONE))
    step(replica, asked(2, key=entry_key("hall", "y"), value=ONE))
    step(replica, asked(3, key=entry_key("hall", "x")))
    assert echo.ground is not None
    assert [*echo.ground.entries.all_keys("hall")] == [entry_key("hall", "y")]


@pytest.mark.parametrize("key", [entry_key("x", "y", "z"), entry_key("x", ""), entry_key("", "x")])
def test_what_is_no_key_is_not_written_and_not_found(key: str) -> None:
    replica, echo, _ = serving()
    ready = step(replica, asked(1, key=key, value=ONE))
    assert (ready.records, [type(answer.result) for answer in ready.answers]) == ([], [BadValueError])
    assert echo.ground is not None
    assert echo.ground.entries.versions(key) == ()


@pytest.mark.parametrize("names", [("x", "y", "z"), (5,), (b"x",), ("x", 5), ("x", ""), (entry_key("x", "y"),)])
def test_what_stands_elsewhere_below_a_service_is_told_to_nobody(names: tuple[Any, ...]) -> None:
    _, _, records = serving()
    echo = Echo()
    event = by_b(Path((None, "service", ECHO, *names)), ONE, 1)
    made(echo, [*records, EventRecord(event, WALL)])
    assert echo.ground is not None
    assert [*echo.ground.entries.all_keys(), *echo.ground.entries.all_keys("x")] == []
    assert [what for _, what in echo.inputs if isinstance(what, EntryChanged)] == []


def test_what_nobody_is_told_of_any_more_is_not_kept() -> None:
    replica, _ = made(Fragile("begin"), serving()[2])
    assert replica.failed_services == {ECHO}
    replica.store.replay(EventRecord(by_b(service_path(ECHO, "x"), ONE, 1), WALL))
    assert replica.registry.service_changes == {(ECHO, "x"): None}
    step(replica, Wake())
    assert replica.registry.service_changes == {}


# -- who is there -------------------------------------------------------------------------------------------------


def test_who_is_registered_and_seems_alive_is_looked_up_in_place() -> None:
    replica, echo, _ = serving()
    assert echo.ground is not None
    assert (echo.ground.nodes.registered, echo.ground.nodes.alive) == ({A, B}, frozenset())
    step(replica, MembersSeen({"b": "b:1"}), 3000)
    assert echo.ground.nodes.alive == {B}
    assert [what for _, what in echo.inputs] == [NodesChanged()]
    step(replica, MembersSeen({}), 3500)
    assert echo.ground.nodes.alive == {B}, "it is looked at once a second"
    step(replica, MembersSeen({}), 4000)
    assert echo.ground.nodes.alive == frozenset()
    assert [what for _, what in echo.inputs] == [NodesChanged()] * 2


def test_life_of_a_node_is_known_and_another_one_is_told() -> None:
    replica, echo, _ = serving()
    lives = [step(replica, asked(1, life=name)).answers[0].result for name in ("b", "nobody")]
    assert lives == [{"life": 7}, {"life": None}]
    anew = Event(node_path(B), Kind.SET, Registration(9, "b:1", WALL).packed(), ((B, first_tick(9)),), Tock(60), WALL)
    replica.store.replay(EventRecord(anew, WALL))
    step(replica, Wake(), 2000)
    assert [what for _, what in echo.inputs if isinstance(what, NodesChanged)] == [NodesChanged()]
    assert step(replica, asked(2, life="b"), 2000).answers[0].result == {"life": 9}


# -- calls --------------------------------------------------------------------------------------------------------


@attrs.define
class Pair:
    """Two nodes, each registered at the other; what they tell each other arrives at once, unless it is lost."""

    nodes: dict[NodeName, tuple[Replica, Echo]] = attrs.field(factory=dict)
    answers: dict[int, ServiceResult] = attrs.field(factory=dict)
    is_cut: bool = False
    is_lost: Callable[[], bool] = lambda: False
    lost: int = 0
    """So many words were lost."""
    largest: int = 0
    """So many bytes had the longest word."""
    records: dict[NodeName, list[Record]] = attrs.field(factory=dict)
    now_ms: int = 1000

    def start(self, name: NodeName) -> None:
        other = A if name == B else B
        registration = Registration(7, f"{other}:1", WALL).packed()
        event = Event(node_path(other), Kind.SET, registration, ((other, first_tick(7)),), Tock(5), WALL)
        kept = self.records.setdefault(name, [])
        echo = Echo()
        if not kept:
            _, ready = made(Echo(), node=name)
            kept += [*ready.records, EventRecord(event, WALL)]
        replica, ready = made(echo, kept, node=name)
        kept += ready.records
        self.nodes[name] = replica, echo

    def ask(self, id: int, **request: object) -> None:
        self.take(A, ServiceAsked(ECHO, id, request))

    def take(self, name: NodeName, what: Any) -> None:
        replica, _ = self.nodes[name]
        self.done(name, replica.step(self.now_ms, WALL, what))

    def done(self, name: NodeName, ready: Ready) -> None:
        self.records[name] += ready.records
        if name == A:
            self.answers |= {answer.id: answer.result for answer in ready.answers}
        for tell in ready.tells:
            self.largest = max(self.largest, len(tell.body))
            if self.is_cut or self.is_lost():
                self.lost += 1
            else:
                self.take(tell.name, NodeTold(name, 7, ECHO, tell.body))

    def wait(self, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms // 250):
            self.now_ms += 250
            for name in self.nodes:
                self.take(name, Wake())


def pair() -> Pair:
    found = Pair()
    for name in (A, B):
        found.start(name)
    return found


def questions(echo: Echo) -> list[bytes]:
    return [what.body for _, what in echo.inputs if isinstance(what, NodeAsked)]


def test_question_to_another_node_is_answered_with_its_purpose() -> None:
    two = pair()
    two.ask(1, node="b", question=b"abc")
    assert two.answers == {1: {"reply": b"cba"}}
    assert questions(two.nodes[B][1]) == [b"abc"]


def test_question_to_this_node_itself_needs_no_bytes() -> None:
    two = pair()
    two.is_cut = True
    two.ask(1, node="a", question=b"abc")
    assert (two.answers, two.lost) == ({1: {"reply": b"cba"}}, 0)


def test_question_may_leave_before_the_disk_has_its_step_once_the_start_is_known() -> None:
    two = pair()
    replica, _ = two.nodes[A]

    def early(id: int) -> list[bool]:
        ready = replica.step(two.now_ms, WALL, ServiceAsked(ECHO, id, {"node": "b", "question": b"abc", "early": True}))
        two.done(A, ready)
        return [tell.waits for tell in ready.tells]

    assert early(1) == [True], "it is the first one: the number of this start is kept by its step"
    assert early(2) == [False]
    assert two.answers.keys() == {1, 2}


def test_question_that_is_asked_again_waits_for_the_disk() -> None:
    two = pair()
    two.ask(1, node="b", question=b"abc")
    two.is_cut = True
    two.ask(2, node="b", question=b"abc", early=True)
    replica, _ = two.nodes[A]
    ready = replica.step(two.now_ms + 2 * CHECK_MS, WALL, Wake())
    assert [tell.waits for tell in ready.tells] == [True]


def test_question_that_got_lost_is_asked_again() -> None:
    two = pair()
    two.is_cut = True
    two.ask(1, node="b", question=b"abc")
    assert (two.answers, two.lost) == ({}, 1)
    two.is_cut = False
    two.wait(3 * CHECK_MS)
    assert two.answers == {1: {"reply": b"cba"}}


@pytest.mark.parametrize("node", ["a", "b", "nobody"])
def test_question_that_nobody_answers_ends_after_its_patience(node: str) -> None:
    two = pair()
    two.is_cut = node == "nobody"
    two.ask(1, node=node, question=SILENCE)
    two.wait(PATIENCE_MS - 250)
    assert two.answers == {}
    two.wait(250)
    assert isinstance(two.answers[1], PeerError)
    assert f"{node} did not answer within 10 s" in str(two.answers[1])
    if node in two.nodes:
        assert [what for _, what in two.nodes[NodeName(node)][1].inputs if isinstance(what, NodeGaveUp)]


def test_question_that_is_too_large_is_refused_at_once() -> None:
    two = pair()
    two.ask(1, node="b", question=bytes(BODY_BYTES_MAX + 1))
    assert isinstance(two.answers[1], TooLargeError)


def test_what_is_above_the_bound_waits_until_there_is_room() -> None:
    two, most = pair(), UNDER_WAY_BYTES // (PART_BYTES + 1)
    two.is_cut = True
    for id in range(1, 8):
        two.ask(id, node="b", question=bytes([id]) * PART_BYTES)
    assert two.lost == most
    two.is_cut = False
    two.wait(3 * CHECK_MS)
    assert two.answers.keys() == {*range(1, 8)}


@pytest.mark.parametrize("size", [PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 1 << 20, BODY_BYTES_MAX])
def test_long_question_and_its_long_answer_go_in_parts(size: int) -> None:
    two, body = pair(), random.Random(size).randbytes(size)
    two.ask(1, node="b", question=body)
    assert two.answers == {1: {"reply": bytes(reversed(body))}}
    assert questions(two.nodes[B][1]) == [body]
    assert two.largest < PART_BYTES + 100


@pytest.mark.parametrize("seed", seeds(10))
def test_long_question_comes_through_whatever_gets_lost(seed: int) -> None:
    two, rng = pair(), random.Random(seed)
    body = rng.randbytes(5 * PART_BYTES)
    two.is_lost = lambda: rng.random() < 0.4
    two.ask(1, node="b", question=body)
    for _ in range(4):
        if not two.answers:
            two.wait(2 * CHECK_MS)
    two.is_lost = lambda: False
    two.wait(2 * CHECK_MS)
    assert two.answers == {1: {"reply": bytes(reversed(body))}}


@pytest.mark.parametrize("count", range(1, 10, 2))
def test_long_question_is_said_again_when_the_other_node_began_anew(count: int) -> None:
    two, body = pair(), random.Random(1).randbytes(3 * PART_BYTES)
    words = iter(range(1000))
    two.is_lost = lambda: next(words) >= count
    two.ask(1, node="b", question=body)
    assert two.answers == {}
    two.start(B)
    two.is_lost = lambda: False
    two.wait(5 * CHECK_MS)
    assert two.answers == {1: {"reply": bytes(reversed(body))}}


def test_parts_that_nobody_asks_about_are_forgotten() -> None:
    two, body = pair(), random.Random(1).randbytes(3 * PART_BYTES)
    words = iter(range(1000))
    two.is_lost = lambda: next(words) >= 2
    two.ask(1, node="b", question=body)
    two.wait(PATIENCE_MS)
    assert isinstance(two.answers[1], PeerError)
    two.is_lost = lambda: False
    two.wait(KEPT_MS)
    assert two.nodes[B][0].wake_ms() is None or two.nodes[B][0].wake_ms() > two.now_ms


def test_answer_that_is_nonsense_is_the_reply() -> None:
    two = pair()
    two.ask(1, node="b", question=SILENCE)
    (call,) = [what.call for _, what in two.nodes[B][1].inputs if isinstance(what, NodeAsked)]
    said = b"\xc1" + pack(CallAnswered(call.boot, call.number, b"\x09"))
    two.take(A, NodeTold(B, 7, ECHO, said))
    assert isinstance(two.answers[1], PeerError)


def test_answer_to_an_earlier_start_is_told_to_nobody() -> None:
    two = pair()
    two.ask(1, node="b", question=SILENCE)
    (call,) = [what.call for _, what in two.nodes[B][1].inputs if isinstance(what, NodeAsked)]
    two.start(A)
    two.ask(2, node="b", question=b"abc")
    assert two.answers == {2: {"reply": b"cba"}}
    (later,) = [what.call for _, what in two.nodes[B][1].inputs if isinstance(what, NodeAsked) and what.body == b"abc"]
    assert later.boot > call.boot


def test_number_of_the_start_is_kept_with_the_first_question_and_no_machine_sees_it() -> None:
    two = pair()
    two.ask(1, node="b", question=b"abc")
    kept = [record for record in two.records[A] if isinstance(record, SlotRecord)]
    assert [record.key for record in kept] == [BOOT_SLOT]
    assert [record for record in two.records[B] if isinstance(record, SlotRecord)] == []
    two.start(A)
    assert two.nodes[A][1].restored == [{}]


@pytest.mark.parametrize("body", [b"\xc1", b"\xc1\xc1", b"\xc1\x91\x01", b"\xc1\x93\x03\x01\x90more"])
def test_word_of_the_ground_that_cannot_be_read_is_counted_and_dropped(body: bytes) -> None:
    replica, echo, _ = serving()
    ready = step(replica, NodeTold(B, 7, ECHO, body))
    assert ([note.id for note in ready.notes], ready.tells, echo.inputs) == (["call_bad"], [], [])


# -- what must not be repeated, who is silent, what is not wanted any more ----------------------------------------


@pytest.mark.parametrize("size", [3, PART_BYTES + 1])
def test_question_that_must_not_be_repeated_is_asked_and_answered(size: int) -> None:
    two = pair()
    two.ask(1, node="b", question=bytes(size), once=True)
    assert two.answers == {1: {"reply": bytes(size)}}


def test_question_that_must_not_be_repeated_is_not_asked_of_the_next_start() -> None:
    """Whether the one before did what was asked nobody knows (ROUTE-3)."""
    two = pair()
    two.ask(1, node="b", question=SILENCE, once=True)
    assert questions(two.nodes[B][1]) == [SILENCE]
    two.start(B)
    two.wait(3 * CHECK_MS)
    assert isinstance(two.answers[1], UnknownOutcomeError)
    assert questions(two.nodes[B][1]) == []


def test_question_that_must_not_be_repeated_and_got_lost_is_not_asked_again() -> None:
    two = pair()
    two.is_cut = True
    two.ask(1, node="b", question=b"abc", once=True)
    two.is_cut = False
    two.wait(3 * CHECK_MS)
    assert isinstance(two.answers[1], UnknownOutcomeError)
    assert questions(two.nodes[B][1]) == []


def test_question_that_must_not_be_repeated_and_is_not_answered_may_be_done() -> None:
    two = pair()
    two.ask(1, node="b", question=SILENCE, once=True)
    two.wait(PATIENCE_MS)
    assert isinstance(two.answers[1], UnknownOutcomeError)


def test_question_that_waits_for_room_until_its_patience_is_over_is_not_done() -> None:
    two = pair()
    two.is_cut = True
    for id in range(1, 8):
        two.ask(id, node="b", question=bytes([id]) * PART_BYTES, once=True)
    two.wait(PATIENCE_MS)
    assert [type(two.answers[id]) for id in (1, 7)] == [UnknownOutcomeError, PeerError]


def test_node_that_is_asked_and_says_nothing_is_named_until_it_says_something() -> None:
    two = pair()
    two.ask(1, node="b", question=SILENCE)
    two.wait(3 * CHECK_MS)
    assert silent(two.nodes[A][1]) == []
    two.is_cut = True
    two.wait(3 * CHECK_MS)
    assert silent(two.nodes[A][1]) == [{B}]
    two.is_cut = False
    two.wait(2 * CHECK_MS)
    assert silent(two.nodes[A][1]) == [{B}, frozenset()]


def silent(echo: Echo) -> list[frozenset[NodeName]]:
    return [what.nodes for _, what in echo.inputs if isinstance(what, NodesSilent)]


@pytest.mark.parametrize("node", [A, B])
def test_question_that_is_withdrawn_is_not_waited_for(node: NodeName) -> None:
    """A watch of notes asks all nodes for what changes."""
    two = pair()
    two.take(A, ServiceAsked(ECHO, 1, EchoNotes(0)))
    two.take(A, ServiceContinued(ECHO, 1))
    (*_, asked) = [what.call for _, what in two.nodes[node][1].inputs if isinstance(what, NodeAsked)]
    two.take(A, ServiceWithdrawn(ECHO, 1))
    assert NodeGaveUp(asked) in [what for _, what in two.nodes[node][1].inputs]
