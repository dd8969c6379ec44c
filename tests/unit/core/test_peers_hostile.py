"""A peer whose answers are not what it was asked for: nothing that a client was told of is lost by them.

Knows: docs/protocol, 'Between two nodes over TCP'.  Whom a node asks is what anybody may gossip.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.ready import Ask, AskEvents, AskMaps, PeerAnswered, PeerDone, PeerOffered, TransportGap
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.wire.message import EventBatch, PullEnd, SnapshotHead
from tests.fleet import Fleet, grown

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")


def held(fleet: Fleet, name: str) -> dict[str, bytes]:
    """The clients' values."""
    return {str(entry.head.path): entry.head.value for entry in fleet[name].tree.walk(Path()) if entry.is_live}


def exchanging(fleet: Fleet) -> Ask:
    """An exchange that `a` started, and that nobody answered yet."""
    count = len(fleet.asked)
    fleet.step("a", TransportGap())
    while not (asked := [ask for _, name, ask in fleet.asked[count:] if name == "a"]):
        fleet.run(1)
    assert isinstance(asked[0].what, AskMaps)
    return asked[0]


def pulling(fleet: Fleet) -> Ask:
    """A pull that `a` started, and that nobody answered yet: of all that `b` wrote unheard."""
    fleet.faults.update_loss = 1.0
    fleet.set("b", "missed", 1)
    count = len(fleet.asked)
    fleet.step("a", PeerOffered(fleet["b"].maps()))
    (ask,) = [ask for _, name, ask in fleet.asked[count:] if isinstance(ask.what, AskEvents)]
    return ask


@pytest.mark.parametrize("begin", [exchanging, pulling])
def test_snapshot_that_nobody_asked_for_changes_nothing(begin: object) -> None:
    assert callable(begin)
    fleet = grown("a", "b")
    fleet.set("a", "mine", 1)
    ask = begin(fleet)
    before = held(fleet, "a")
    snapshot = SnapshotHead(fleet["b"].maps().header, 7, {}, {}, 0)
    ready = fleet.step("a", PeerAnswered(ask.id, snapshot))
    assert ready.records == []
    assert held(fleet, "a") == before
    assert "mine" in before


def test_short_answer_to_a_whole_exchange_changes_nothing_and_asks_nothing() -> None:
    fleet = grown("a", "b")
    fleet.set("b", "missed", 1)
    ask = exchanging(fleet)
    short = attrs.evolve(fleet["b"].maps(), held={}, lost={}, ticks={}, ticks_hash=bytes(8))
    ready = fleet.step("a", PeerAnswered(ask.id, short))
    ended = fleet.step("a", PeerDone(ask.id))
    assert [note.id for note in ready.notes] == ["answer_unasked"]
    assert not [message for message in (*ready.messages, *ended.messages) if isinstance(message, Ask)]


def test_end_of_a_pull_tells_only_of_what_was_asked_for() -> None:
    fleet = grown("a", "b", "c")
    ask = pulling(fleet)
    future = {name: Ranges([(fleet[name].tick, fleet[name].tick + 1000)]) for name in (B, C)}
    fleet.step("a", PeerAnswered(ask.id, PullEnd(future, {})))
    fleet.step("a", PeerDone(ask.id))
    assert isinstance(ask.what, AskEvents)
    assert fleet["a"].tree.ledger.has((B, fleet["b"].tick))  # that was asked for
    assert not fleet["a"].tree.ledger.has((B, Tick(fleet["b"].tick + 1)))
    assert not fleet["a"].tree.ledger.has((C, Tick(fleet["c"].tick + 1)))


def test_end_of_a_pull_to_who_asked_for_maps_changes_nothing() -> None:
    fleet = grown("a", "b")
    ask = exchanging(fleet)
    ready = fleet.step("a", PeerAnswered(ask.id, PullEnd({B: Ranges([(1, 1000)])}, {})))
    assert ready.records == []


def test_events_to_who_asked_for_maps_change_nothing() -> None:
    fleet = grown("a", "b")
    ask = exchanging(fleet)
    event = Event(Path(["x"]), Kind.SET, b"\x01", ((B, Tick(900)),), Tock(900), 0.0)
    assert fleet.step("a", PeerAnswered(ask.id, EventBatch((event,)))).records == []
