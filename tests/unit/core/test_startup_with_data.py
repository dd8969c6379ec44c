"""A node that restarts on its own data: what it waits for, and what it answers meanwhile.

Knows: docs/protocol, 'Start-up': With data, Lost, Own tick uncertain, One name twice.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.client_writes import LocalSet, WriteDone
from distkv.core.ready import HeardMessage, JoinerAsked, MembersSeen, PeerOffered
from distkv.errors import DuplicateNameError, NotReadyError
from distkv.model.event import Event, Kind, NodeName, Tick, life_of
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.sim.network import NetworkFaults
from distkv.wire.message import Header, Info, Message, Ping, Start, TickMaps, Update
from distkv.wire.value_requests import SetValue
from tests.fleet import Fleet, grown, meet_namesake
from tests.profiles import seeds

CLOCK_MS = 5000


def _updates(fleet: Fleet, name: str) -> list[Message]:
    return [message for _, sender, message in fleet.sent if sender == name and isinstance(message, Update)]


def _with_a_gap() -> Fleet:
    """Two nodes; a lacks b's first write, knows that it exists, and is down."""
    fleet = grown("a", "b")
    fleet.partition(["a"], ["b"])
    fleet.set("b", "first", 1)
    fleet.set("b", "second", 2)
    fleet.step("a", HeardMessage(_updates(fleet, "b")[-1]))
    fleet.crash("a")
    fleet.heal()
    assert fleet["b"].tree.ledger.is_whole
    return fleet


def _ready_after_ms(fleet: Fleet, name: str, within_ms: int = 60_000) -> int:
    began_ms = fleet.now_ms
    assert fleet.run_until(lambda: fleet[name].is_serving, within_ms), f"{name}: {fleet[name].waits_for}"
    return fleet.now_ms - began_ms


# -- others are there


def test_what_is_missing_comes_before_ready() -> None:
    fleet = _with_a_gap()
    fleet.start("a")
    _ready_after_ms(fleet, "a")
    assert fleet["a"].tree.get(Path(["first"])) is not None


def test_restart_among_others_takes_less_than_a_clock() -> None:
    fleet = _with_a_gap()
    fleet.start("a")
    assert _ready_after_ms(fleet, "a") < CLOCK_MS


def test_what_was_written_meanwhile_comes_before_ready() -> None:
    fleet = grown("a", "b", "c")
    fleet.crash("a")
    for number in range(500):
        fleet.set("b", f"x.{number}", number)
    fleet.start("a")
    _ready_after_ms(fleet, "a")
    assert fleet["a"].tree.get(Path(["x", "499"])) is not None


def test_what_goes_missing_later_does_not_hold_readiness_up() -> None:
    fleet = grown("a", "b")
    fleet.crash("a")
    fleet.set("b", "x", 1)
    fleet.start("a", up=False)
    fleet.step("a", PeerOffered(fleet["b"].maps()))
    fleet.partition(["a"], ["b"])
    fleet.set("b", "y", 1)
    fleet.set("b", "z", 1)
    fleet.step("a", HeardMessage(_updates(fleet, "b")[0]))
    fleet.step("a", HeardMessage(_updates(fleet, "b")[-1]))
    assert fleet["a"].is_serving
    assert fleet["a"].tree.ledger.missing()


def test_recovering_node_says_what_it_waits_for() -> None:
    fleet = _with_a_gap()
    fleet.start("a")
    ready = fleet.set("a", "x", 1)
    assert isinstance(ready.reply, NotReadyError)
    assert "a is recovering, it waits for word from another node" in str(ready.reply)


def test_ready_is_left_by_a_restart_only() -> None:
    fleet = grown("a", "b")
    fleet.partition(["a"], ["b"])
    fleet.transport("a", up=False)
    fleet.run(20 * CLOCK_MS)
    assert fleet["a"].is_serving


def test_node_whose_address_changed_says_so_in_the_registry() -> None:
    fleet = grown("a", "b")
    fleet.crash("b")
    fleet.start("b", addr="elsewhere:9")
    assert fleet.run_until(fleet.is_converged, 20_000)
    assert fleet["a"].registry.nodes[NodeName("b")].addr == "elsewhere:9"


def test_first_peer_asked_without_data_is_not_the_last_word() -> None:
    fleet = _with_a_gap()
    fleet.start("empty", up=False)
    fleet.start("a")
    fleet.step("a", HeardMessage(_updates(fleet, "b")[-1]))
    assert _ready_after_ms(fleet, "a") < CLOCK_MS


# -- nobody is there


def test_alone_and_whole_it_is_ready_after_one_clock() -> None:
    fleet = grown("a", "b")
    fleet.crash("a")
    fleet.crash("b")
    fleet.start("a")
    assert _ready_after_ms(fleet, "a") == CLOCK_MS


def test_clock_of_silence_begins_when_it_can_hear() -> None:
    fleet = grown("a", "b")
    fleet.crash("a")
    fleet.crash("b")
    fleet.start("a", up=False)
    fleet.run(2 * CLOCK_MS - 100)
    fleet.transport("a", up=True)
    assert _ready_after_ms(fleet, "a") == CLOCK_MS


def test_alone_with_a_gap_it_is_ready_when_the_gap_is_lost() -> None:
    fleet = _with_a_gap()
    fleet.crash("b")
    fleet.start("a")
    after_ms = _ready_after_ms(fleet, "a")
    assert 3 * CLOCK_MS <= after_ms <= 4 * CLOCK_MS
    assert fleet["a"].tree.ledger.lost()


def test_without_transport_it_serves_cut_off_after_two_clocks() -> None:
    fleet = _with_a_gap()
    fleet.start("a", up=False)
    fleet.run(2 * CLOCK_MS - 1)
    before = fleet["a"].state
    fleet.run(500)
    assert (before, fleet["a"].state) == (State.RECOVERING, State.CUT_OFF)


def test_cut_off_node_takes_writes_and_spreads_them_later() -> None:
    fleet = grown("a", "b")
    fleet.transport("a", up=False)
    assert isinstance(fleet.set("a", "x", 1).reply, WriteDone)
    fleet.run(CLOCK_MS)
    fleet.transport("a", up=True)
    assert fleet.run_until(fleet.is_converged, CLOCK_MS)
    assert fleet["b"].tree.get(Path(["x"])) is not None


# -- all restart


def _all_restart(fleet: Fleet, wiped: str = "") -> None:
    names = list(fleet.members)
    for name in names:
        fleet.crash(name)
    if wiped:
        fleet.wipe(wiped)
    fleet.run(1000)
    for name in names:
        fleet.start(name)


@pytest.mark.parametrize("seed", seeds(5))
def test_three_restarted_together_are_ready_within_two_clocks(seed: int) -> None:
    fleet = grown("a", "b", "c", seed=seed)
    for number in range(50):
        fleet.set("abc"[number % 3], f"x.{number}", number)
    _all_restart(fleet)
    assert fleet.run_until(fleet.is_converged, 2 * CLOCK_MS)
    assert fleet["a"].tree.live_count == 50 + 5


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("wiped", ["a", "b", "c"])
def test_one_wiped_while_all_restart_comes_back_in_a_new_life(seed: int, wiped: str) -> None:
    fleet = grown("a", "b", "c", seed=seed)
    for name in "abc":
        fleet.set(name, f"by.{name}", name)
    fleet.run(1000)
    before = fleet[wiped].life
    assert before is not None
    _all_restart(fleet, wiped)
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert (fleet[wiped].life or 0) > before
    assert fleet[wiped].tree.get(Path(["by", wiped])) is not None


def test_peers_are_answered_in_every_state() -> None:
    # Else nodes that restart together would wait for each other.
    fleet = _with_a_gap()
    fleet.crash("b")
    fleet.start("a")
    fleet.start("b")
    ready = fleet.step("a", PeerOffered(fleet["b"].maps()))
    assert fleet["a"].state is State.RECOVERING
    assert ready.reply is not None
    assert not isinstance(ready.reply, Exception)


# -- foreign networks


def test_foreign_exchange_is_refused() -> None:
    fleet, other = grown("a", seed=1), grown("z", seed=2)
    ready = fleet.step("a", PeerOffered(other["z"].maps()))
    assert "never merge" in str(ready.reply)
    assert fleet.notes["foreign_network"] == 1


def test_foreign_exchange_does_not_keep_a_start_waiting() -> None:
    fleet, other = grown("a", seed=1), grown("z", seed=2)
    fleet.crash("a")
    fleet.start("a")
    fleet.step("a", PeerOffered(other["z"].maps()))
    assert _ready_after_ms(fleet, "a") == CLOCK_MS


def test_foreign_member_does_not_keep_a_start_waiting() -> None:
    fleet, other = grown("a", seed=1), grown("z", seed=2)
    fleet.crash("a")
    fleet.members["z"] = other.members["z"]
    fleet.start("a")
    assert fleet.run_until(lambda: fleet["a"].is_serving, 3 * CLOCK_MS)


def test_voice_of_a_node_that_is_gone_does_not_keep_a_start_waiting() -> None:
    fleet = grown("a", "b")

    def voices() -> list[Ping]:
        return [message for _, sender, message in fleet.sent if sender == "b" and isinstance(message, Ping)]

    assert fleet.run_until(lambda: len(voices()) > 1, 400 * CLOCK_MS)
    voice = voices()[-1]
    fleet.crash("a")
    fleet.crash("b")
    fleet.start("a")
    fleet.run(CLOCK_MS // 2)
    fleet.step("a", HeardMessage(voice))
    assert fleet.run_until(lambda: fleet["a"].is_serving, 5 * CLOCK_MS), fleet["a"].waits_for


# -- one name twice


def _as_if_by(fleet: Fleet, name: str, start: Start, ahead: int = 5) -> Header:
    """What begins a message in the name of a running node, from another start."""
    replica = fleet[name]
    network = replica.registry.network
    assert network is not None
    return Header(replica.name, replica.tick, type(replica.tock)(replica.tock + ahead), 0, network.id, start)


def test_younger_of_two_with_one_name_ends() -> None:
    fleet = grown("a", "b")
    meet_namesake(fleet, "b", _as_if_by(fleet, "b", Start(1.0, 1)))
    assert isinstance(fleet.members["b"].fatal, DuplicateNameError)
    assert "another live node is called b" in str(fleet.members["b"].fatal)


def test_older_of_two_with_one_name_goes_on() -> None:
    fleet = grown("a", "b")
    meet_namesake(fleet, "b", _as_if_by(fleet, "b", Start(9e9, 1)))
    assert fleet["b"].is_serving
    assert fleet.notes["name_twice"] == 1


def test_claim_of_gossip_to_be_us_is_asked_about_and_not_believed() -> None:
    fleet = grown("a", "b")
    for started in (1.0, 9e9):
        fleet.step("b", HeardMessage(Info(_as_if_by(fleet, "b", Start(started, 1)), "other:1", State.READY)))
    assert [ask.addr for _, name, ask in fleet.asked if name == "b"].count("other:1") == 1
    fleet.run(10 * CLOCK_MS)
    assert fleet["b"].is_serving
    assert fleet.notes["name_claimed"] == 2


def test_offer_of_a_stranger_to_be_us_is_asked_about_and_not_believed() -> None:
    fleet = grown("a", "b")
    header = _as_if_by(fleet, "b", Start(1.0, 1))
    ready = fleet.step("b", PeerOffered(TickMaps(header, "other:1", State.READY, {}, {}, {}, 0)))
    assert ready.fatal is None
    assert fleet.notes["name_claimed"] == 1


def test_own_messages_from_before_a_restart_do_not_end_a_node() -> None:
    fleet = grown("a", "b")
    fleet.run(10 * CLOCK_MS)
    fleet.crash("b")
    fleet.start("b")
    fleet.run(10_000)
    for _, sender, message in list(fleet.sent):
        if sender == "b" and isinstance(message, Ping | Info):
            fleet.step("b", HeardMessage(message))
    assert fleet.members["b"].fatal is None


# -- own tick uncertain, rolled back


def _rolled_back() -> Fleet:
    """b's disk is older than what b once said; a knows the rest."""
    fleet = grown("a", "b")
    old = fleet.records("b")
    fleet.set("b", "x", 1)
    fleet.set("b", "y", 2)
    fleet.run(1000)
    fleet.crash("b")
    fleet.set_back("b", old)
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    return fleet


def test_rolled_back_node_begins_a_new_life() -> None:
    fleet = _rolled_back()
    assert fleet.notes["rolled_back"] == 1
    assert fleet["b"].life == life_of(fleet["b"].tick) == fleet["a"].registry.nodes[NodeName("b")].life


def test_rolled_back_node_gets_its_old_writes_back() -> None:
    fleet = _rolled_back()
    assert fleet["b"].tree.get(Path(["y"])) is not None


def test_rolled_back_node_writes_no_tick_twice() -> None:
    fleet = _rolled_back()
    old = fleet["b"].tree.get(Path(["y"]))
    reply = fleet.set("b", "z", 3).reply
    assert old is not None
    assert isinstance(reply, WriteDone)
    assert reply.event is not None
    assert reply.event.writer != old.head.writer  # the fleet checks that no tick has two contents


def test_rolled_back_node_keeps_its_new_life_over_a_restart() -> None:
    fleet = _rolled_back()
    life = fleet["b"].life
    fleet.crash("b")
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert fleet["b"].life == life


def test_used_up_life_is_followed_by_a_new_one() -> None:
    fleet = grown("a")
    full = (1 << 32) - 2
    fleet.crash("a")
    records = fleet.records("a")
    last = next(r for r in reversed(records) if hasattr(r, "event"))
    event = Event(Path(["full"]), Kind.SET, b"\x01", ((NodeName("a"), Tick(full)),), last.event.tock, 1.0)
    fleet.set_back("a", [*records, attrs.evolve(last, event=event)])
    fleet.start("a", alone=True, up=False)
    first, second = (fleet.set("a", "x", value).reply for value in (1, 2))
    assert isinstance(first, WriteDone)
    assert isinstance(second, WriteDone)
    assert first.event is not None
    assert second.event is not None
    assert [first.event.tick, life_of(second.event.tick)] == [full + 1, fleet["a"].life]
    assert (fleet["a"].life or 0) > 0


# -- lost


def _burned() -> Fleet:
    """b wrote twice; a heard only of the second, c of nothing, and b's disk is gone for good."""
    fleet = grown("a", "b", "c")
    fleet.partition(["a"], ["b"], ["c"])
    fleet.set("b", "first", 1)
    fleet.set("b", "second", 2)
    fleet.step("a", HeardMessage(_updates(fleet, "b")[-1]))
    fleet.crash("b")
    fleet.heal()
    return fleet


def test_tick_that_every_live_node_lacks_is_lost_but_not_before_three_clocks() -> None:
    fleet = _burned()
    fleet.crash("a")
    fleet.start("a")
    fleet.run(3 * CLOCK_MS - 1)
    before = fleet["a"].tree.ledger.lost()
    fleet.run(CLOCK_MS)
    assert (before, list(fleet["a"].tree.ledger.lost())) == ({}, ["b"])


def test_tick_is_not_lost_while_a_live_node_has_not_answered() -> None:
    fleet = _burned()
    fleet.faults = NetworkFaults(answer_ms=(3_600_000, 3_600_000))
    fleet.run(20 * CLOCK_MS)
    assert fleet["a"].tree.ledger.lost() == {}


def test_lost_tick_still_is_missing() -> None:
    fleet = _burned()
    fleet.run(10 * CLOCK_MS)
    ledger = fleet["a"].tree.ledger
    assert ledger.missing() == ledger.lost() == {NodeName("b"): Ranges([(4294967297, 4294967298)])}


def test_holder_that_returns_brings_a_lost_tick_back() -> None:
    fleet = _burned()
    fleet.run(10 * CLOCK_MS)
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert fleet["c"].tree.ledger.missing() == {}
    assert fleet["c"].tree.get(Path(["first"])) is not None


def test_lost_mark_survives_a_restart() -> None:
    fleet = _burned()
    fleet.run(10 * CLOCK_MS)
    fleet.crash("a")
    fleet.start("a")
    assert fleet["a"].tree.ledger.lost()


def test_two_dead_origins_do_not_keep_the_others_from_being_asked() -> None:
    # The origin is asked before those of whom nothing is known; two that lack their own ticks took turns for ever.
    fleet = grown("a", "b", "c", "d", "e")
    fleet.partition(["a"], ["b"], ["c"], ["d", "e"])
    for name in "bc":
        fleet.set(name, f"first.{name}", 1)
        fleet.set(name, f"second.{name}", 2)
        fleet.step("a", HeardMessage(_updates(fleet, name)[-1]))
    for name in "bc":
        fleet.wipe(name)
    fleet.heal()
    for name in "bc":
        fleet.start(name)
    assert fleet.run_until(fleet.is_converged, 6 * CLOCK_MS)
    assert list(fleet["a"].tree.ledger.lost()) == ["b", "c"]


def test_write_below_a_null_name_is_refused() -> None:
    """Only the system writes there (docs/protocol, PATH-3)."""
    fleet = grown("a")
    reply = fleet.step("a", LocalSet(SetValue(1, Path((None, "node", "a")), b"\x01"))).reply
    assert "belongs to the system" in str(reply)


def _rolled_back_and_alone() -> Fleet:
    """b's disk is older than what b once said, and b hears nobody but what the test hands it."""
    fleet = grown("a", "b")
    old = fleet.records("b")
    fleet.set("b", "x", 1)
    fleet.run(1000)
    fleet.set("a", "x", 2)  # its chain names b's write
    fleet.crash("b")
    fleet.set_back("b", old)
    fleet.partition(["a"], ["b"])
    fleet.start("b")
    fleet.run(2 * CLOCK_MS)
    assert fleet["b"].is_serving
    return fleet


def test_rolled_back_node_that_learns_it_by_a_chain_writes_no_tick_twice() -> None:
    fleet = _rolled_back_and_alone()
    fleet.step("b", HeardMessage(_updates(fleet, "a")[-1]))
    reply = fleet.set("b", "y", 1).reply  # the fleet checks that no tick has two contents
    assert isinstance(reply, WriteDone)
    assert fleet["b"].tree.get(Path(["y"])) is not None


def test_rolled_back_sponsor_that_learned_it_by_a_chain_registers_in_a_new_life() -> None:
    fleet = _rolled_back_and_alone()
    fleet.step("b", HeardMessage(_updates(fleet, "a")[-1]))
    fleet.step("b", JoinerAsked(NodeName("new"), 0.0, "new:1"))
    assert NodeName("new") in fleet["b"].registry.nodes


def test_node_rolled_back_beyond_a_change_of_life_notices() -> None:
    fleet = grown("a", "b")
    old = fleet.records("b")
    fleet.set("b", "x", 1)
    fleet.run(1000)
    for _ in range(2):  # the first time it begins a new life, the second time the disk is from before that
        fleet.crash("b")
        fleet.set_back("b", old)
        fleet.start("b")
        assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert fleet.notes["rolled_back"] == 2


def test_member_whose_server_is_dead_does_not_keep_a_start_waiting() -> None:
    # A Serf agent outlives its server: the transport goes on to call the node alive.
    fleet = grown("a", "b", "c", members_seen=False)
    fleet.partition(["a"], ["b"], ["c"])
    fleet.set("b", "first", 1)
    fleet.set("b", "second", 2)
    fleet.step("a", HeardMessage(_updates(fleet, "b")[-1]))
    fleet.crash("b")
    fleet.crash("a")
    fleet.heal()
    fleet.start("a")
    fleet.step("a", MembersSeen({"a": "a:1", "b": "b:1", "c": "c:1"}))
    assert _ready_after_ms(fleet, "a") <= 6 * CLOCK_MS
