"""Requests that find their node, a list of many nodes and its watch: while nodes are cut off, paused and killed.

Knows: a fleet with the echo, and its notes.  Does not know how a request is routed.
"""

from __future__ import annotations

import random

import pytest

from distkv.core.ready import ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.errors import NotFoundError, NotReadyError, UnknownOutcomeError
from distkv.sim.fleet import Fleet
from distkv.sim.network import NetworkFaults
from tests.profiles import seeds
from tests.proof.core.echo.machine import ECHO
from tests.proof.core.echo.noting import PATIENCE_MS
from tests.proof.sim.echo.crowd import EchoNodes
from tests.proof.sim.echo.notes import NotesAreKept, SeenNotes
from tests.proof.wire.echo import EchoList, EchoName, EchoNote, EchoNotes

NAMES = ("a", "b", "c")
DOINGS = ("give", "note", "note", "note", "once", "list", "leave", "cut", "kill")
SOON_MS = 1000
"""In so long a list names who is away."""


class Play:
    """A fleet of three, and who asks what of it."""

    def __init__(self, seed: int = 0) -> None:
        self.rule, self.count = NotesAreKept(), 0
        self.fleet = fleet = Fleet(seed, observers=[self.rule])
        fleet.services[ECHO] = EchoNodes()
        for name in NAMES:
            fleet.start(name, init="root" if name == "a" else None)
        assert fleet.run_until(lambda: all(host.live.is_serving for host in fleet.running()), 60_000)
        fleet.run(30_000)

    def ask(self, name: str, request: object) -> int:
        self.count += 1
        self.fleet.step(name, ServiceAsked(ECHO, self.count, request))
        return self.count

    def give(self, name: str, keeper: str) -> None:
        """From now on this node keeps the notes of that name."""
        self.ask(self.some(), EchoName(0, name, keeper))

    def some(self) -> str:
        return next(host.name for host in self.fleet.running())

    def note(self, at: str, name: str, text: str, *, is_once: bool = False) -> int:
        return self.ask(at, EchoNote(0, name, text, is_once))

    def restart(self, name: str) -> None:
        self.fleet.end(self.fleet.hosts[name])
        self.fleet.run(500)
        self.fleet.start(name)

    def watch(self, at: str) -> SeenNotes:
        """What a watch was told so far; its client takes all at once."""
        process, id = self.fleet.hosts[at].process, self.ask(at, EchoNotes(0))
        assert process is not None

        def go_on() -> None:
            if process.is_running:
                process.host.give(process, lambda: self.fleet.step(at, ServiceContinued(ECHO, id)))
                self.fleet.later(100, go_on)

        self.fleet.later(100, go_on)
        return self.rule.watches[process, id]


def test_request_is_answered_by_the_node_that_keeps_it_wherever_it_is_asked() -> None:
    play = Play()
    play.give("x", "b")
    play.fleet.run(2000)
    for at in NAMES:
        play.note(at, "x", f"from {at}")
        play.fleet.run(500)
    assert [(one.node, one.text, one.count) for one in play.rule.noted] == [
        ("b", "from a", 1), ("b", "from b", 2), ("b", "from c", 3),
    ]  # fmt: skip


def test_request_that_nobody_can_be_asked_about_is_told_why_when_patience_is_over() -> None:
    play = Play()
    play.note("a", "x", "text")
    play.fleet.run(PATIENCE_MS - 100)
    assert play.rule.refused == []
    play.fleet.run(200)
    assert [type(error) for error in play.rule.refused] == [NotFoundError]


def test_request_waits_until_somebody_can_be_asked() -> None:
    play = Play()
    play.note("a", "x", "text")
    play.fleet.run(1000)
    play.give("x", "c")
    play.fleet.run(1000)
    assert [one.node for one in play.rule.noted] == ["c"]


def test_request_is_asked_anew_of_whoever_keeps_it_now() -> None:
    play = Play()
    play.give("x", "b")
    play.fleet.run(2000)
    play.fleet.network.isolate("b", NAMES)
    play.note("a", "x", "text")
    play.fleet.run(2000)
    assert play.rule.noted == []
    play.give("x", "c")
    play.fleet.run(1000)
    assert [one.node for one in play.rule.noted] == ["c"]


def test_request_that_must_not_be_repeated_is_refused_when_it_may_be_done() -> None:
    play = Play()
    play.give("x", "b")
    play.fleet.run(2000)
    play.fleet.network.cut = {("b", "a")}  # it hears, and cannot answer
    play.note("a", "x", "text", is_once=True)
    play.fleet.run(300)
    play.restart("b")
    play.fleet.heal()
    play.fleet.run(PATIENCE_MS)
    assert [type(error) for error in play.rule.refused] == [UnknownOutcomeError]


def test_request_at_a_silent_node_ends_after_its_patience() -> None:
    play = Play()
    play.give("x", "b")
    play.fleet.run(2000)
    play.fleet.network.isolate("b", NAMES)
    play.note("a", "x", "text")
    play.note("a", "x", "once", is_once=True)
    play.fleet.run(PATIENCE_MS + 100)
    refused = sorted(play.rule.refused, key=str)
    assert [type(error) for error in refused] == [NotReadyError, UnknownOutcomeError]
    assert "b did not answer within 10 s" in str(refused[0])


def test_list_has_the_notes_of_all_nodes_in_pages() -> None:
    play = Play()
    for name, keeper in (("u", "a"), ("v", "b"), ("w", "c"), ("x", "a")):
        play.give(name, keeper)
        play.fleet.run(1000)
        play.note("b", name, name.upper())
    play.fleet.run(1000)
    play.ask("c", EchoList(0, limit=3))
    play.fleet.run(300)
    play.ask("c", EchoList(0, limit=3, after="w"))
    play.fleet.run(300)
    pages = [([one.name for one in page.items], page.more, page.away) for page in play.rule.listed]
    assert pages == [(["u", "v", "w"], True, ()), (["x"], False, ())]


@pytest.mark.parametrize("what", ["cut", "paused", "killed"])
def test_list_names_who_is_away_from_the_first_second_on(what: str) -> None:
    play = Play()
    for name, keeper in (("x", "a"), ("y", "b")):
        play.give(name, keeper)
        play.fleet.run(1000)
        play.note("c", name, name.upper())
    play.fleet.run(1000)
    host = play.fleet.hosts["b"]
    if what == "cut":
        play.fleet.network.isolate("b", NAMES)
    elif what == "paused":
        host.pause()
    else:
        play.fleet.end(host)
    play.ask("a", EchoList(0))
    play.fleet.run(SOON_MS + 100)
    (page,) = play.rule.listed
    assert ([one.name for one in page.items], page.away) == (["x"], ("b",))


def test_list_that_a_node_dies_in_the_midst_of_is_answered_without_it() -> None:
    play = Play()
    play.fleet.network.faults = NetworkFaults(answer_ms=(300, 300), delay_ms=(300, 300))
    play.ask("a", EchoList(0))
    play.fleet.run(100)
    play.fleet.end(play.fleet.hosts["c"])
    play.fleet.run(SOON_MS)
    assert [page.away for page in play.rule.listed] == [("c",)]


def test_watch_is_told_the_list_then_what_changes_and_who_is_away() -> None:
    play = Play()
    play.give("x", "b")
    play.fleet.run(2000)
    play.note("a", "x", "one")
    play.fleet.run(500)
    seen = play.watch("c")
    play.fleet.run(500)
    assert (seen.texts, seen.away, seen.is_complete) == ({"x": "one"}, (), True)
    play.note("a", "x", "two")
    play.fleet.run(500)
    assert seen.texts == {"x": "two"}
    play.fleet.end(play.fleet.hosts["b"])
    assert play.fleet.run_until(lambda: seen.away == ("b",), 60_000)
    assert seen.texts == {"x": "two"}, "what was told last is kept"
    play.give("x", "a")
    play.note("a", "x", "three")
    play.fleet.run(2000)
    assert seen.texts == {"x": "three"}
    play.fleet.start("b")
    assert play.fleet.run_until(lambda: seen.away == (), 60_000)
    assert seen.texts == {"x": "three"}


def test_watch_that_begins_while_a_node_is_away_says_so_after_a_second() -> None:
    play = Play()
    play.fleet.network.isolate("b", NAMES)
    seen = play.watch("a")
    play.fleet.run(SOON_MS - 200)
    assert not seen.is_complete
    play.fleet.run(400)
    assert (seen.is_complete, seen.away) == (True, ("b",))
    play.fleet.heal()
    assert play.fleet.run_until(lambda: seen.away == (), 60_000)


@pytest.mark.parametrize("seed", seeds(6))
def test_notes_are_kept_and_watches_know_them_whatever_happens(seed: int) -> None:
    play, rng = Play(seed), random.Random(seed)
    fleet = play.fleet
    fleet.network.faults = NetworkFaults(delay_ms=(5, 300), answer_ms=(5, 50), loss=0.1)
    for round in range(40):
        running = [host.name for host in fleet.running() if host.live.is_serving]
        what, name = rng.choice(DOINGS), rng.choice("xyz")
        if what == "kill" and len(running) == len(NAMES):
            victim = rng.choice(NAMES)
            fleet.end(fleet.hosts[victim])
            fleet.later(rng.randrange(8000), lambda victim=victim: fleet.start(victim))  # type: ignore[misc]
        elif what == "cut":
            fleet.network.isolate(rng.choice(NAMES), NAMES)
            fleet.later(rng.randrange(5000), fleet.heal)
        elif running:
            at = rng.choice(running)
            if what == "give":
                play.ask(at, EchoName(0, name, rng.choice(NAMES)))
            elif what == "list":
                play.ask(at, EchoList(0))
            else:
                id = play.note(at, name, f"text {round}", is_once=what == "once")
                if what == "leave":
                    fleet.step(at, ServiceWithdrawn(ECHO, id))
        fleet.run(rng.randrange(1500))
    fleet.heal()
    fleet.network.faults = NetworkFaults()
    fleet.run(30_000)
    seen = [play.watch(name) for name in NAMES]
    fleet.run(10_000)
    play.rule.settled(fleet)
    kept: dict[str, str] = {}
    for name in NAMES:
        play.ask(name, EchoList(0))
        fleet.run(2000)
        page = play.rule.listed[-1]
        assert page.away == ()
        kept = {one.name: one.text for one in page.items if one.text is not None}
        assert [one.texts for one in seen] == [kept] * len(NAMES)
