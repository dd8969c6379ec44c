"""What a pull's answer holds, so that the word in it needs no belief (docs/protocol, PULL-1, PULL-2)."""

from __future__ import annotations

import attrs

from distkv.core.client_writes import LocalDecision
from distkv.core.ready import AskEvents, PeerAnswered, PeerDone, PeerOffered
from distkv.model.event import NodeName, Tick
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.wire.decisions import Dismiss
from distkv.wire.message import EventBatch
from tests.fleet import Fleet, grown

A = NodeName("a")


def _written(*paths: str) -> Fleet:
    """A node alone that wrote these, one after the other; nothing is known to anybody else."""
    fleet = grown("a")
    for number, path in enumerate(paths):
        fleet.set("a", path, number)
    return fleet


def _paths(fleet: Fleet, asked: AskEvents) -> list[str]:
    events, _ = fleet["a"].pulled(asked)
    return [str(event.path) for event in events]


def test_answer_to_a_whole_pull_brings_what_is_newer_than_the_asker_heard_of() -> None:
    fleet = _written("x", "y", "z")
    last = fleet["a"].tick
    asked = AskEvents({A: Ranges([(last - 2, last - 1)])}, ticks={A: [Tick(last - 1)]}, limit=10)
    assert _paths(fleet, asked) == ["x", "z"]


def test_answer_to_a_pull_that_names_no_ticks_brings_what_was_asked_only() -> None:
    fleet = _written("x", "y", "z")
    last = fleet["a"].tick
    assert _paths(fleet, AskEvents({A: Ranges([(last - 2, last - 1)])})) == ["x"]


def test_answer_to_a_whole_pull_brings_all_of_a_writer_that_the_asker_never_heard_of() -> None:
    fleet = _written("x", "y")
    assert _paths(fleet, AskEvents({}, ticks={NodeName("z"): [Tick(9)]}, limit=100))[-2:] == ["x", "y"]


def test_answer_that_has_no_room_for_all_calls_nothing_superseded() -> None:
    fleet = _written("x", "x", "y", "z")
    last = fleet["a"].tick
    for limit, known in ((2, {}), (3, {A: Ranges([(last - 3, last - 2)])})):
        events, end = fleet["a"].pulled(AskEvents({A: Ranges([(last - 3, last + 1)])}, ticks={A: [last]}, limit=limit))
        assert (len(events), end.known) == (limit, known)


def test_answer_tells_what_is_superseded_above_what_the_asker_heard_of() -> None:
    fleet = _written("x", "x")
    last = fleet["a"].tick
    _, end = fleet["a"].pulled(AskEvents({}, ticks={A: [Tick(last - 2)]}, limit=100))
    assert end.known == {A: Ranges([(last - 1, last)])}


def test_node_that_downloads_calls_nothing_superseded() -> None:
    # Its sponsor told it what is superseded, and not yet what by.
    fleet = grown("a", "b")
    fleet.set("a", "x", 1)
    fleet.set("a", "x", 2)
    fleet.run(1000)
    last = fleet["a"].tick
    fleet.faults.answer_ms = (200, 200)
    fleet.start("c")
    assert fleet.run_until(lambda: fleet["c"].tree.ledger.has((A, Tick(last - 1))), 60_000)
    assert fleet["c"].life is None
    events, end = fleet["c"].pulled(AskEvents({A: Ranges([(last - 1, last)])}, ticks={}, limit=100))
    assert (events, end.known) == ([], {})


def test_loser_is_closed_only_together_with_what_closed_it() -> None:
    # b is asked which open losers are superseded; what closed this one is newer than the maps of the exchange.
    fleet = grown("a", "b")
    fleet.partition(["a"], ["b"])
    fleet.set("a", "x", "of a")
    fleet.set("b", "x", "of b")
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 60_000)
    fleet.run(30_000)
    (loser,) = fleet["a"].tree.open_losers()
    fleet.partition(["a"], ["b"])
    fleet.step("a", PeerOffered(attrs.evolve(fleet["b"].maps(), digest=0)))
    ask = fleet.asked[-1][2]
    assert isinstance(ask.what, AskEvents)
    assert loser.tick in ask.what.doubted[loser.node]
    fleet.step("b", LocalDecision(Dismiss(1, loser.link)))
    events, end = fleet["b"].pulled(ask.what)
    fleet.step("a", PeerAnswered(ask.id, EventBatch(tuple(events))))
    fleet.step("a", PeerAnswered(ask.id, end))
    fleet.step("a", PeerDone(ask.id))
    closer, here = (fleet[name].tree.head(Path(["x"])) for name in "ba")
    assert closer is not None
    assert here is not None
    assert list(fleet["a"].tree.open_losers()) == []
    assert here.link == closer.link
