"""What a fleet's steps become in a trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distkv.core.client_writes import LocalSet
from distkv.core.ready import Ready, Wake
from distkv.graph.recorder import RANGES_SHOWN, Recorder, chain_text, ranges_text
from distkv.graph.trace import EVENTS_SHOWN, Moment, StepKind
from distkv.model.event import COUNT_BITS, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.sim.fleet import Fleet
from distkv.sim.recording import Recording
from distkv.sim.rules.alike import is_at_rest
from distkv.wire.gossip import GossipKind
from distkv.wire.message import PingLink
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

A, B = NodeName("a"), NodeName("b")


class Recorded(Fleet):
    """A fleet of a and b whose moments are kept."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        super().__init__(observers=[Recording(self.moments.append)])
        self.start("a", init="root")
        self.run(5100)
        self.start("b")
        self.wait_at_rest()

    def wait_at_rest(self) -> None:
        assert self.run_until(lambda: is_at_rest(self), 60_000)

    def set(self, name: str, path: str, value: object) -> None:
        self.step(name, LocalSet(SetValue(1, Path([path]), pack_value(value))))

    def of(self, name: str, kind: str, since_ms: int = 0) -> list[Moment]:
        return [m for m in self.moments if (m.node, m.kind) == (name, kind) and m.at_ms >= since_ms]

    def split_writes(self, do: Callable[[], object]) -> None:
        """Something is done while the nodes do not hear each other, and they meet again."""
        self.partition("a", "b")
        do()
        self.run(20_000)
        self.heal()
        self.wait_at_rest()


@pytest.fixture
def fleet() -> Recorded:
    return Recorded()


def test_gossip_has_one_key_where_it_leaves_and_where_it_arrives(fleet: Recorded) -> None:
    fleet.set("a", "k", 1)
    fleet.run(100)
    (sent,) = fleet.of("a", StepKind.SET)[-1].sent
    heard = fleet.of("b", GossipKind.UPDATE)[-1].heard
    assert heard == sent


def test_event_is_followed_by_its_tick_from_node_to_node(fleet: Recorded) -> None:
    fleet.set("a", "k", 1)
    fleet.run(100)
    seen = [(m.node, event.fate) for m in fleet.moments for event in m.events if event.tick == fleet.moments[-1].ticks]
    assert seen == [("a", "made"), ("b", "won")]


def test_answers_carry_the_request_they_belong_to(fleet: Recorded) -> None:
    fleet.split_writes(lambda: fleet.set("a", "k", 1))
    asked = {said.key for m in fleet.moments for said in m.sent if said.kind.startswith("ask")}
    answers = [m.heard.ask for m in fleet.moments if m.heard and m.kind in ("maps", "events", "known", "snapshot")]
    assert answers
    assert set(answers) <= asked


def test_maps_of_the_answering_side_have_one_key(fleet: Recorded) -> None:
    fleet.split_writes(lambda: fleet.set("a", "k", 1))
    sent = {s.key for m in fleet.moments if m.kind == StepKind.OFFERED for s in m.sent if s.kind == "maps"}
    assert sent
    assert sent == {m.heard.key for m in fleet.moments if m.kind == StepKind.MAPS and m.heard}


def test_what_is_missing_is_told_and_then_nothing(fleet: Recorded) -> None:
    began_ms = fleet.now_ms
    fleet.split_writes(lambda: fleet.set("a", "k", 1))
    missing = [m.missing for m in fleet.moments if m.node == "b" and m.at_ms > began_ms]
    assert f"a:{fleet.hosts['a'].live.tick}" in missing
    assert missing[-1] == ""


def test_both_of_a_conflict_are_told_apart(fleet: Recorded) -> None:
    def write() -> None:
        fleet.set("b", "k", 2)
        fleet.set("a", "k", 1)

    began_ms = fleet.now_ms
    fleet.split_writes(write)
    fates = {e.fate for m in fleet.moments if m.at_ms > began_ms and m.kind == StepKind.EVENTS for e in m.events}
    assert fates == {"won", "open loser"}


def test_what_arrives_again_is_known(fleet: Recorded) -> None:
    fleet.network.faults.duplication = 1.0
    fleet.set("a", "k", 1)
    fleet.run(100)
    assert [m.events[0].fate for m in fleet.of("b", GossipKind.UPDATE)[-2:]] == ["won", "known"]


def test_refused_write_says_why(fleet: Recorded) -> None:
    fleet.step("a", LocalSet(SetValue(1, Path(["k"]), b"\x01", prev=b"\x02")))
    assert fleet.moments[-1].notes == ("refused code=not_found",)


def test_idle_steps_give_no_moment(fleet: Recorded) -> None:
    spoken = [m for m in fleet.moments if m.kind == StepKind.WAKE]
    assert spoken
    assert [m for m in spoken if not (m.sent or m.ticks or m.notes)] == []


def test_end_of_a_process_is_told(fleet: Recorded) -> None:
    fleet.end(fleet.hosts["b"])
    assert (fleet.moments[-1].node, fleet.moments[-1].kind) == ("b", "ends")


def test_of_many_events_some_are_shown_and_all_are_named(fleet: Recorded) -> None:
    def write() -> None:
        for number in range(EVENTS_SHOWN + 1):
            fleet.set("a", f"k{number}", number)

    fleet.split_writes(write)
    moment = max(fleet.of("b", StepKind.EVENTS), key=lambda m: len(m.events))
    assert len(moment.events) == EVENTS_SHOWN
    assert moment.heard is not None
    assert moment.ticks == moment.heard.ticks
    assert "-" in moment.ticks


def test_ranges_name_each_life_by_itself() -> None:
    life = 350 << COUNT_BITS
    ranges = {B: Ranges([(3, 4)]), A: Ranges([(1, 6), (9, 10), (life + 1, life + 3)])}
    assert ranges_text(ranges) == "a:1-5,9 a:350.1-2 b:3"


def test_many_ranges_are_cut_and_say_so() -> None:
    text = ranges_text({A: Ranges([(2 * n, 2 * n + 1) for n in range(1, RANGES_SHOWN + 2)])})
    assert text.endswith(f",{2 * RANGES_SHOWN} …")


def test_chain_names_a_node_without_data_only() -> None:
    assert chain_text((PingLink(B, None, Tock(3)), PingLink(A, Tick(2), Tock(1)))) == "b a:2"


def test_one_who_begins_to_listen_sees_the_node_as_it_is(fleet: Recorded) -> None:
    fleet.set("a", "k", 1)
    fleet.run(100)
    replica = fleet.hosts["a"].live
    seen = Recorder().seen(7, replica)
    last = fleet.of("a", StepKind.SET)[-1]
    assert (seen.at_ms, seen.node, seen.kind) == (7, "a", "seen")
    assert (seen.state, seen.tick, seen.digest, seen.chain) == (last.state, last.tick, last.digest, last.chain)


def test_what_one_has_seen_gives_no_moment_again(fleet: Recorded) -> None:
    recorder, replica = Recorder(), fleet.hosts["a"].live
    recorder.seen(0, replica)
    assert recorder.step(1, Wake(), Ready(), replica) is None
