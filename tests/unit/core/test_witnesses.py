"""Whether a node may go on in the life that its disk has: it may be older than it should be (docs/protocol, LIFE-4)."""

from __future__ import annotations

import pytest

from distkv.core.client_writes import WriteDone
from distkv.core.ready import AnnounceDue, AskMaps, HeardMessage, PeerOffered
from distkv.core.witnesses import ASKED_MAX, Witnesses
from distkv.errors import RequestError
from distkv.model.event import Event, NodeName, life_of
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.sim.network import NetworkFaults
from distkv.wire.message import Info
from tests.fleet import Fleet, grown
from tests.profiles import seeds

CLOCK_MS = 5000


def wrote(fleet: Fleet, name: str) -> Event:
    """A write of a node that serves."""
    reply = fleet.set(name, "new", fleet.now_ms).reply
    assert isinstance(reply, WriteDone)
    assert reply.event is not None
    return reply.event


def rolled_back(*hearers: str) -> Fleet:
    """Of a, b and c, b wrote something that only `hearers` heard of; its disk is from before that, and it is down."""
    fleet = grown("a", "b", "c")
    fleet.run(2 * CLOCK_MS)
    old = fleet.records("b")
    fleet.partition(["b", *hearers])
    fleet.set("b", "x", 1)
    fleet.run(100)
    fleet.crash("b")
    fleet.set_back("b", old)
    fleet.heal()
    return fleet


def serving(fleet: Fleet, name: str) -> int:
    """Wait until a node serves; after how many milliseconds."""
    began_ms = fleet.now_ms
    assert fleet.run_until(lambda: fleet[name].is_serving, 3 * CLOCK_MS)
    return fleet.now_ms - began_ms


# -- a disk that is older than it should be -----------------------------------------------------------------------


def test_rolled_back_node_whose_witness_is_away_writes_no_tick_twice() -> None:  # seed 66 of roll-back
    fleet = rolled_back("c")
    fleet.partition(["a", "b"], ["c"])
    fleet.start("b")
    serving(fleet, "b")
    assert life_of(wrote(fleet, "b").tick) > 0
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 6 * CLOCK_MS)  # the fleet checks that no tick has two contents


def test_rolled_back_node_that_hears_nobody_writes_no_tick_twice() -> None:  # seed 67 of roll-back
    fleet = rolled_back("a", "c")
    fleet.partition(["b"], ["a", "c"])
    fleet.start("b")
    serving(fleet, "b")
    wrote(fleet, "b")
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 6 * CLOCK_MS)


def test_rolled_back_node_without_transport_writes_no_tick_twice() -> None:
    fleet = rolled_back("a", "c")
    fleet.start("b", up=False)
    fleet.run(2 * CLOCK_MS + 500)
    wrote(fleet, "b")
    fleet.transport("b", up=True)
    assert fleet.run_until(fleet.is_converged, 6 * CLOCK_MS)


# -- a disk that is as it was left --------------------------------------------------------------------------------


def test_node_whom_all_have_answered_goes_on_in_its_life() -> None:
    fleet = grown("a", "b", "c")
    before = fleet["b"].life
    fleet.crash("b")
    fleet.start("b")
    serving(fleet, "b")
    assert life_of(wrote(fleet, "b").tick) == before


def test_nodes_that_restart_together_go_on_in_their_lives() -> None:
    fleet = grown("a", "b", "c")
    before = {name: fleet[name].life for name in "abc"}
    for name in "abc":
        fleet.crash(name)
    for name in "abc":
        fleet.start(name)
        fleet.run(50)
    assert fleet.run_until(fleet.all_ready, CLOCK_MS)
    fleet.run(2 * CLOCK_MS)
    assert {name: life_of(wrote(fleet, name).tick) for name in "abc"} == before


def test_life_is_kept_when_the_one_that_was_away_answers_before_the_first_write() -> None:
    fleet = grown("a", "b", "c")
    before = fleet["b"].life
    fleet.crash("b")
    fleet.crash("c")
    fleet.start("b")
    serving(fleet, "b")
    fleet.run(CLOCK_MS)
    fleet.start("c")
    fleet.run(3 * CLOCK_MS)
    assert life_of(wrote(fleet, "b").tick) == before


def test_node_that_does_not_write_begins_no_life() -> None:
    fleet = grown("a", "b", "c")
    before = fleet["b"].life
    fleet.crash("b")
    fleet.crash("c")
    fleet.start("b")
    fleet.run(10 * CLOCK_MS)
    assert fleet["b"].life == before


def test_only_registered_node_goes_on_in_its_life() -> None:
    fleet = grown("a")
    fleet.crash("a")
    fleet.start("a", up=False, alone=True)
    assert life_of(wrote(fleet, "a").tick) == 0


def test_node_of_a_network_that_runs_alone_begins_a_life() -> None:
    fleet = grown("a", "b")
    fleet.crash("a")
    fleet.start("a", up=False, alone=True)
    assert life_of(wrote(fleet, "a").tick) > 0
    assert fleet.notes["unwitnessed"] == 1


# -- waiting ------------------------------------------------------------------------------------------------------


def test_readiness_waits_for_a_silent_host_a_fifth_of_a_clock_only() -> None:
    fleet = grown("a", "b", "c")
    fleet.crash("b")
    fleet.faults = NetworkFaults(silence_ms=10_000)
    fleet.partition(["a", "b"], ["c"])
    fleet.start("b")
    assert serving(fleet, "b") == CLOCK_MS // 5


@pytest.mark.parametrize("seed", seeds(3))
def test_readiness_waits_for_all_answers(seed: int) -> None:
    fleet = grown("a", "b", "c", "d", seed=seed)
    fleet.crash("b")
    fleet.faults = NetworkFaults(answer_ms=(1, 300))
    fleet.start("b")
    assert serving(fleet, "b") < CLOCK_MS
    assert life_of(wrote(fleet, "b").tick) == fleet["a"].registry.nodes[NodeName("b")].life


def test_who_is_away_is_asked_once_only() -> None:
    fleet = grown("a", "b", members_seen=False)
    fleet.crash("a")
    fleet.crash("b")
    fleet.start("b")
    fleet.run(20 * CLOCK_MS)
    began_ms = fleet.now_ms
    fleet.run(20 * CLOCK_MS)
    assert not [ask for at, _, ask in fleet.asked if at > began_ms and isinstance(ask.what, AskMaps)]


def test_no_more_are_asked_at_once_than_is_good() -> None:
    machine = Witnesses(CLOCK_MS, is_needed=True)
    names = [NodeName(f"n{number}") for number in range(ASKED_MAX + 3)]
    machine.registered(lambda: names, 1)
    first = machine.take_due(0, lambda _: True)
    machine.ended(first[0])
    assert (first, machine.take_due(0, lambda _: True)) == (names[:ASKED_MAX], [names[ASKED_MAX]])


def test_who_told_without_being_asked_is_not_asked() -> None:
    machine = Witnesses(CLOCK_MS, is_needed=True)
    names = [NodeName(name) for name in "ab"]
    machine.registered(lambda: names, 1)
    machine.shown(names[0])
    machine.check()
    assert machine.take_due(0, lambda _: True) == names[1:]


def test_who_did_not_answer_is_asked_again_after_a_clock() -> None:
    machine = Witnesses(CLOCK_MS, is_needed=True)
    name = NodeName("n")
    machine.registered(lambda: [name], 1)
    machine.take_due(0, lambda _: True)
    machine.ended(name)
    asked = [machine.take_due(now_ms, lambda _: True) for now_ms in (1, CLOCK_MS // 5, CLOCK_MS - 1, 2 * CLOCK_MS)]
    assert asked == [[], [], [], [name]]


def test_who_is_no_longer_registered_is_not_waited_for() -> None:
    machine = Witnesses(CLOCK_MS, is_needed=True)
    machine.registered(lambda: [NodeName("n"), NodeName("m")], 1)
    machine.shown(NodeName("n"))
    machine.registered(lambda: [NodeName("n")], 2)
    assert machine.have_all


# -- the short form (XCHG-5) --------------------------------------------------------------------------------------


def asked_of(fleet: Fleet, name: str) -> list[NodeName | None]:
    """Of the exchanges that a node began, for whom each was short."""
    return [ask.what.short_for for _, asker, ask in fleet.asked if asker == name and isinstance(ask.what, AskMaps)]


def test_all_but_the_first_are_asked_for_a_hash() -> None:
    fleet = grown("a", "b", "c", "d")
    fleet.crash("b")
    fleet.asked.clear()
    fleet.start("b")
    serving(fleet, "b")
    assert asked_of(fleet, "b") == [None, "c", "d"]


def test_who_holds_something_else_is_asked_once_more_in_whole() -> None:
    fleet = grown("a", "b", "c")
    fleet.crash("b")
    fleet.partition(["a", "b"], ["c"])
    fleet.set("c", "x", 1)
    fleet.run(100)
    fleet.heal()
    fleet.crash("a")
    fleet.asked.clear()
    fleet.start("b")
    serving(fleet, "b")
    assert asked_of(fleet, "b") == [None, "c", None]
    assert fleet.run_until(lambda: fleet["b"].tree.get(Path(["x"])) is not None, CLOCK_MS // 2)


def test_tick_that_a_peer_only_heard_of_is_told_with_the_hash() -> None:
    fleet = grown("a", "b", "c")
    fleet.run(2 * CLOCK_MS)
    old = fleet.records("b")
    fleet.partition(["b", "c"], ["a"])
    fleet.faults = NetworkFaults(update_loss=1.0)
    fleet.set("b", "x", 1)
    fleet.step("b", AnnounceDue())
    fleet.run(50)
    fleet.crash("b")
    fleet.set_back("b", old)
    fleet.faults = NetworkFaults()
    fleet.heal()
    assert fleet["c"].tree.ledger.missing()
    fleet.start("b")
    assert fleet.run_until(lambda: fleet.notes["rolled_back"] > 0, 50)


def test_tick_of_a_third_node_that_nobody_of_the_two_holds_is_told_with_the_hash() -> None:
    # XCHG-5: else it would not count as the whole maps do; what is missing may be another one's registration (LIFE-4).
    fleet = grown("a", "b", "c")
    fleet.faults = NetworkFaults(loss=1.0)
    fleet.set("c", "x", 1)
    (info,) = fleet.step("c", AnnounceDue()).messages
    assert isinstance(info, Info)
    fleet.step("b", HeardMessage(info))
    short = fleet["b"].maps(AskMaps(short_for=NodeName("a")))
    assert short.ticks_hash == fleet["a"].tree.ledger.hash()
    fleet.step("a", PeerOffered(short))
    assert fleet["a"].tree.ledger.missing() == {NodeName("c"): Ranges([(fleet["c"].tick, fleet["c"].tick + 1)])}


def test_short_form_of_another_network_is_refused() -> None:
    fleet, other = grown("a", "b"), grown("y", "z", seed=7)
    reply = fleet.step("a", PeerOffered(other["z"].maps(AskMaps(short_for=NodeName("a"))))).reply
    assert isinstance(reply, RequestError)
