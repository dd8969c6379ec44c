"""A node without data joins: whom it asks, who sponsors it, and what breaks on the way.

Knows: docs/protocol, 'Start-up' (Without data) and 'Registry'; the source's 'Startup'.
"""

from __future__ import annotations

import itertools

import attrs
import pytest

from distkv.core.ready import (
    Ask,
    AskMaps,
    AskSnapshot,
    HeardMessage,
    JoinerAsked,
    PeerAnswered,
    PeerDone,
    PeerOffered,
    TransportGap,
)
from distkv.errors import (
    BusyError,
    DistkvError,
    DuplicateNameError,
    ExistsError,
    NotReadyError,
    PeerError,
    RequestError,
)
from distkv.model.event import NodeName, life_of
from distkv.model.path import Path
from distkv.model.state import State
from distkv.sim.clock import WALL
from distkv.sim.network import NetworkFaults
from distkv.wire.message import EventBatch, Ping, SnapshotHead, TickMaps, Update
from tests.fleet import Fleet, downloading, grown
from tests.profiles import seeds, size

CLOCK_MS = 5000


def _asks(fleet: Fleet, kind: type, name: str) -> list[str]:
    return [ask.addr for _, sender, ask in fleet.asked if sender == name and isinstance(ask.what, kind)]


def _sponsored(fleet: Fleet, sponsor: str, name: str) -> SnapshotHead:
    """What the sponsor says first to a joiner."""
    member = fleet.members[name]
    asked = JoinerAsked(member.name, member.live.started, member.addr)
    ready = fleet.step(sponsor, asked)
    for message in ready.messages:
        if isinstance(message, Ask):  # the name is registered; nobody answers there
            fleet.step(sponsor, PeerDone(message.id, PeerError("nobody")))
            ready = fleet.step(sponsor, asked)
    assert isinstance(ready.reply, SnapshotHead)
    return ready.reply


def _entries(fleet: Fleet, name: str) -> EventBatch:
    return EventBatch(tuple(event for entry in fleet[name].tree.entries() for event in (entry.head, *entry.losers)))


def _asking(fleet: Fleet, name: str) -> int:
    """Start an empty node that has just asked somebody for a download; the test answers."""
    fleet.faults = NetworkFaults(answer_ms=(3_600_000, 3_600_000))
    fleet.start(name)
    assert fleet.run_until(lambda: bool(_asks(fleet, AskSnapshot, name)), 4 * CLOCK_MS)
    return fleet.asked[-1][2].id


# -- how it finds somebody


@pytest.mark.parametrize("seed", seeds(8))
def test_first_initial_ping_leaves_between_half_a_clock_and_one(seed: int) -> None:
    fleet = Fleet(seed)
    fleet.start("new")
    fleet.run(CLOCK_MS)
    assert CLOCK_MS / 2 <= fleet.sent[0][0] <= CLOCK_MS


def test_initial_ping_has_neither_tick_nor_chain() -> None:
    fleet = Fleet()
    fleet.start("new")
    fleet.run(CLOCK_MS)
    ping = fleet.sent[0][2]
    assert isinstance(ping, Ping)
    assert [(link.node, link.tick) for link in ping.chain] == [("new", None)]


def test_unanswered_initial_ping_is_repeated_after_a_clock() -> None:
    fleet = Fleet()
    fleet.start("new")
    fleet.run(4 * CLOCK_MS)
    times = [at for at, _, _ in fleet.sent]
    assert [b - a for a, b in itertools.pairwise(times)] == [CLOCK_MS] * 3


def test_initial_pings_do_not_come_faster_when_those_who_answer_cannot_be_reached() -> None:
    fleet = grown("a", "b", faults=NetworkFaults(breaks=1.0))
    fleet.start("new")
    fleet.run(10 * CLOCK_MS)
    pings = [at for at, name, message in fleet.sent if name == "new" and isinstance(message, Ping)]
    assert len(pings) <= 11


def test_without_transport_nothing_is_asked() -> None:
    fleet = Fleet()
    fleet.start("new", up=False)
    fleet.run(10 * CLOCK_MS)
    assert (fleet.sent, fleet["new"].wake_ms()) == ([], None)


def test_node_joins_by_the_answer_to_its_ping() -> None:
    fleet = grown("a", "b", members_seen=False)
    fleet.start("new")
    assert fleet.run_until(fleet.is_converged, 2 * CLOCK_MS)


def test_node_joins_by_the_members_the_transport_sees() -> None:
    fleet = grown("a", "b", faults=NetworkFaults(loss=1.0))
    fleet.start("new")
    assert fleet.run_until(lambda: fleet["new"].is_serving, CLOCK_MS // 2)


def test_node_joins_by_a_regular_ping() -> None:
    fleet = grown("a", "b", members_seen=False)
    fleet.run(3 * CLOCK_MS)
    fleet.start("new")
    fleet.step("new", HeardMessage(fleet.pings()[-1][2]))
    assert fleet.run_until(lambda: fleet["new"].is_serving, 500)


def test_several_new_nodes_join_at_once() -> None:
    fleet = grown("a")
    for name in "bcdefgh":
        fleet.start(name)
    assert fleet.run_until(fleet.is_converged, 2 * CLOCK_MS)
    assert len(fleet["h"].registry.nodes) == 8


def test_joiner_waits_for_a_founder_that_starts_later() -> None:
    fleet = Fleet()
    fleet.start("b")
    fleet.run(10 * CLOCK_MS)
    fleet.start("a", init=1)
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)


def test_sponsor_without_data_says_so() -> None:
    fleet = Fleet()
    fleet.start("a")
    reply = fleet.step("a", JoinerAsked(NodeName("b"), WALL, "b:1")).reply
    assert isinstance(reply, NotReadyError)


# -- the download


def test_sponsor_registers_before_it_takes_the_snapshot() -> None:
    fleet = grown("a")
    ready = fleet.step("a", JoinerAsked(NodeName("b"), WALL + 100, "b:1"))
    assert isinstance(ready.reply, SnapshotHead)
    assert fleet["a"].registry.nodes[NodeName("b")].life == ready.reply.life == 95
    assert max(ready.reply.ticks[NodeName("a")]) == fleet["a"].tick
    assert any(isinstance(message, Update) for message in ready.messages)


def test_joiner_whose_clock_is_years_ahead_is_refused_and_not_registered() -> None:
    """No later life could follow the one that it would get (docs/protocol, REG-7)."""
    fleet = grown("a")
    reply = fleet.step("a", JoinerAsked(NodeName("b"), WALL + 1e9, "b:1")).reply
    assert isinstance(reply, RequestError)
    assert "more than a day ahead" in str(reply)
    assert NodeName("b") not in fleet["a"].registry.nodes


def test_joiner_writes_in_the_life_it_was_given() -> None:
    fleet = grown("a", "b")
    fleet.set("b", "x", 1)
    assert life_of(fleet["b"].tick) == fleet["b"].life == fleet["a"].registry.nodes[NodeName("b")].life


def test_joiner_gets_tombstones_and_open_losers() -> None:
    fleet = grown("a", "b")
    fleet.partition(["a"], ["b"])
    fleet.set("a", "contested", 1)
    fleet.set("b", "contested", 2)
    fleet.set("a", "gone", 1)
    fleet.set("a", "gone", None)
    fleet.heal()
    fleet.run(4 * CLOCK_MS)
    fleet.start("c")
    assert fleet.run_until(fleet.is_converged, 2 * CLOCK_MS)
    gone, contested = (fleet["c"].tree.get(Path([name])) for name in ("gone", "contested"))
    assert gone is not None
    assert contested is not None
    assert (gone.is_live, len(contested.losers)) == (False, 1)


@pytest.mark.slow
def test_thousands_of_entries_are_there_within_two_clocks() -> None:
    fleet, count = grown("a", "b"), size(3_000, 10_000)
    for number in range(count):
        fleet.set("a", f"x.{number}", number)
    fleet.faults = NetworkFaults(answer_ms=(10, 40))
    fleet.start("new")
    assert fleet.run_until(lambda: fleet["new"].is_serving, 2 * CLOCK_MS)
    assert fleet["new"].tree.live_count >= count


@pytest.mark.slow
def test_what_is_written_during_the_download_comes_too() -> None:
    fleet = downloading("a", "b", count=2000, part_ms=(20, 30))
    for number in range(0, 2000, 7):
        fleet.set("b", f"x.{number}", "later")
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)


def test_updates_heard_during_a_download_do_not_make_it_spin() -> None:
    # The registry is empty at first, so that such an update asks for an exchange, for which a node needs data.
    fleet = grown("a")
    ask = _asking(fleet, "new")
    fleet.step("new", PeerAnswered(ask, _sponsored(fleet, "a", "new")))
    for number in range(10):
        fleet.set("a", f"y.{number}", number)
    fleet.run(4 * CLOCK_MS)  # the fleet watches for busy loops
    assert fleet["new"].state is State.DOWNLOADING


def test_gap_of_the_transport_does_not_make_an_empty_node_spin() -> None:
    fleet = Fleet()
    fleet.start("new")
    fleet.step("new", TransportGap())
    fleet.run(CLOCK_MS)
    assert fleet["new"].state is State.PASSIVE


# -- what breaks


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4))
def test_broken_download_is_tried_again_from_another_sponsor(seed: int) -> None:
    fleet = grown("a", "b", seed=seed)
    for number in range(size(300, 1000)):
        fleet.set("a", f"x.{number}", number)
    fleet.run(2000)
    fleet.start("new")
    assert fleet.run_until(lambda: fleet["new"].state is State.DOWNLOADING, 2 * CLOCK_MS)
    first = _asks(fleet, AskSnapshot, "new")[-1]
    fleet.crash(first[0])
    assert fleet.run_until(lambda: fleet["new"].is_serving, 3 * CLOCK_MS)
    assert _asks(fleet, AskSnapshot, "new")[-1] != first


def test_failed_download_leaves_the_node_passive() -> None:
    fleet = grown("a")
    ask = _asking(fleet, "new")
    fleet.step("new", PeerAnswered(ask, _sponsored(fleet, "a", "new")))
    fleet.step("new", PeerDone(ask, PeerError("gone")))
    assert fleet["new"].state is State.PASSIVE


@pytest.mark.parametrize("batches", [0, 3])
def test_crash_in_mid_download_does_not_make_a_node_ready(batches: int) -> None:
    fleet = downloading("a")
    fleet.run(batches * 100)
    fleet.crash("new")
    fleet.start("new")
    assert fleet["new"].state is State.PASSIVE
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)


def test_download_without_its_entries_does_not_make_a_node_ready() -> None:
    fleet = grown("a")
    ask = _asking(fleet, "new")
    fleet.step("new", PeerAnswered(ask, _sponsored(fleet, "a", "new")))
    fleet.step("new", PeerDone(ask))
    assert fleet["new"].state is State.PASSIVE


def test_download_without_a_word_does_not_make_a_node_ready() -> None:
    fleet = grown("a")
    ask = _asking(fleet, "new")
    fleet.step("new", PeerDone(ask))
    assert fleet["new"].state is State.PASSIVE


def _broken_off(error: DistkvError) -> Fleet:
    """The joiner `new` has all that a's answer should hold, and then the answer ended with an error."""
    fleet = grown("a")
    ask = _asking(fleet, "new")
    fleet.step("new", PeerAnswered(ask, _sponsored(fleet, "a", "new")))
    fleet.step("new", PeerAnswered(ask, _entries(fleet, "a")))
    fleet.step("new", PeerDone(ask, error))
    return fleet


def _asked_next(fleet: Fleet, kind: type, within_ms: int) -> Ask:
    """What `new` asks for next; the test answers."""
    fleet.asked.clear()
    assert fleet.run_until(lambda: bool(_asks(fleet, kind, "new")), within_ms), fleet["new"].waits_for
    return next(ask for _, name, ask in fleet.asked if name == "new" and isinstance(ask.what, kind))


def _unwanted(fleet: Fleet) -> Ask:
    """Nobody takes over what the broken download left, so `new` asks for the next one."""
    exchange = _asked_next(fleet, AskMaps, CLOCK_MS)
    fleet.run(3 * CLOCK_MS)
    fleet.step("new", PeerDone(exchange.id, PeerError("silent")))
    return _asked_next(fleet, AskSnapshot, 2 * CLOCK_MS)


@pytest.mark.parametrize("error", [PeerError("gone"), BusyError("ask again")], ids=repr)
def test_joiner_whose_download_broke_off_is_passive_and_asks_again(error: DistkvError) -> None:
    fleet = _broken_off(error)
    assert fleet["new"].state is State.PASSIVE
    _unwanted(fleet)


def test_download_without_a_word_does_not_go_on_with_the_one_before() -> None:
    # The network and a registration in the life that the first one gave are here; that life would begin at 0 again.
    fleet = _broken_off(PeerError("gone"))
    fleet.step("new", PeerDone(_unwanted(fleet).id))
    assert (fleet["new"].state, fleet["new"].life) == (State.PASSIVE, None)


@pytest.mark.parametrize("is_answered", [True, False])
def test_one_download_is_asked_for_at_a_time(is_answered: bool) -> None:
    fleet = _broken_off(PeerError("gone"))
    exchange = _asked_next(fleet, AskMaps, CLOCK_MS)
    fleet.asked.clear()
    fleet.step("new", PeerAnswered(exchange.id, fleet["a"].maps()))  # a has all that is here: that is downloaded
    fleet.step("new", PeerDone(exchange.id))
    assert _asks(fleet, AskSnapshot, "new") == ["a:1"]
    exchange = _asked_next(fleet, AskMaps, CLOCK_MS)
    fleet.run(3 * CLOCK_MS)  # it hands over no longer
    if is_answered:
        fleet.step("new", PeerAnswered(exchange.id, fleet["a"].maps()))
    fleet.step("new", PeerDone(exchange.id, None if is_answered else PeerError("silent")))
    fleet.run(2 * CLOCK_MS)
    assert _asks(fleet, AskSnapshot, "new") == []


def test_joiner_whose_registration_was_replaced_meanwhile_is_not_ready() -> None:
    """It starts again, with another sponsor (docs/protocol, REG-4)."""
    fleet = grown("a")
    ask = _asking(fleet, "new")
    fleet.step("new", PeerAnswered(ask, _sponsored(fleet, "a", "new")))
    _sponsored(fleet, "a", "new")  # the same name again, in a younger life
    fleet.step("new", PeerAnswered(ask, _entries(fleet, "a")))
    fleet.step("new", PeerDone(ask))
    assert fleet["new"].state is State.PASSIVE


def test_joiner_whose_registration_stands_is_ready() -> None:
    fleet = grown("a")
    ask = _asking(fleet, "new")
    fleet.step("new", PeerAnswered(ask, _sponsored(fleet, "a", "new")))
    fleet.step("new", PeerAnswered(ask, _entries(fleet, "a")))
    fleet.step("new", PeerDone(ask))
    assert fleet["new"].state is State.READY


def test_registration_replaced_before_ready_is_answered_by_a_new_life() -> None:
    # An earlier attempt with another sponsor registered us higher; our sponsor did not know.
    fleet = grown("a", "b")
    fleet.run(1000)
    ask = _asking(fleet, "new")
    fleet.partition(["a"], ["b"], ["new"])
    head = _sponsored(fleet, "a", "new")
    _sponsored(fleet, "b", "new")
    _sponsored(fleet, "b", "new")
    fleet.set("a", "x", 1)  # is missing in the download, so that it is not ready at once
    fleet.step("new", PeerAnswered(ask, attrs.evolve(head, ticks=fleet["a"].tree.ledger.ticks())))
    batch = _entries(fleet, "a")
    fleet.step("new", PeerAnswered(ask, EventBatch(batch.events[:-1])))
    fleet.step("new", PeerDone(ask))
    assert fleet["new"].state is State.RECOVERING
    fleet.faults = NetworkFaults()
    fleet.step("new", PeerOffered(fleet["b"].maps()))
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 10 * CLOCK_MS)
    assert fleet["a"].registry.nodes[NodeName("new")].life == fleet["new"].life


# -- its name


def test_name_of_the_sponsor_is_taken() -> None:
    fleet = grown("a")
    reply = fleet.step("a", JoinerAsked(NodeName("a"), WALL, "other:1")).reply
    assert isinstance(reply, ExistsError)
    assert "give the new one a name of its own" in str(reply)


def test_name_of_a_live_node_at_another_address_is_taken() -> None:
    fleet = grown("a", "b")
    fleet.run(3 * CLOCK_MS)
    first = fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1")).reply
    fleet.run(100)
    reply = fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1")).reply
    assert isinstance(first, BusyError)  # who is there is asked first
    assert isinstance(reply, ExistsError)


def test_name_of_a_dead_node_may_be_taken_over() -> None:
    fleet = grown("a", "b")
    fleet.crash("b")
    fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1"))
    fleet.run(100)
    assert isinstance(fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1")).reply, SnapshotHead)


def _refused_and_the_other_stopped() -> Fleet:
    """A joiner that started at `WALL` was refused for the live b, and somebody stopped b then."""
    fleet = grown("a", "b")
    fleet.run(3 * CLOCK_MS)
    fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1"))
    fleet.run(100)
    assert isinstance(fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1")).reply, ExistsError)
    fleet.crash("b")
    return fleet


def test_joiner_that_was_refused_is_let_in_as_soon_as_the_other_was_stopped() -> None:  # seed 5169
    """(docs/protocol, NAME-7)"""
    fleet = _refused_and_the_other_stopped()
    fleet.step("a", JoinerAsked(NodeName("b"), WALL + 1, "other:1"))
    fleet.run(100)
    assert isinstance(fleet.step("a", JoinerAsked(NodeName("b"), WALL + 1, "other:1")).reply, SnapshotHead)


def test_what_was_found_for_a_later_joiner_counts_for_an_earlier_one() -> None:
    fleet = _refused_and_the_other_stopped()
    assert isinstance(fleet.step("a", JoinerAsked(NodeName("b"), WALL - 1, "other:1")).reply, ExistsError)


def test_later_joiner_waits_for_what_is_being_asked() -> None:
    fleet = grown("a", "b")
    fleet.faults = NetworkFaults(answer_ms=(1000, 1000))
    for number in range(10):
        fleet.step("a", JoinerAsked(NodeName("b"), WALL + number, "other:1"))
    assert sum(ask.addr == "b:1" for _, name, ask in fleet.asked[-10:] if name == "a") == 1


def test_end_of_an_earlier_question_says_nothing_about_who_is_there_by_now() -> None:
    fleet = grown("a", "b")
    asked, never = JoinerAsked(NodeName("b"), WALL, "other:1"), NetworkFaults(answer_ms=(3_600_000, 3_600_000))
    fleet.faults = never
    (first,) = (message for message in fleet.step("a", asked).messages if isinstance(message, Ask))
    fleet.faults = NetworkFaults()
    life = fleet["a"].registry.nodes[NodeName("b")].life
    fleet.crash("b")
    fleet.partition(["a"], ["b"])
    fleet.start("b")
    fleet.run(3 * CLOCK_MS)
    fleet.set("b", "x", 1)  # in a new life: nobody could be asked
    fleet.heal()
    assert fleet.run_until(lambda: fleet["a"].registry.nodes[NodeName("b")].life > life, 4 * CLOCK_MS)
    fleet.faults = never
    fleet.step("a", asked)  # the life is another one, so it is asked anew
    fleet.step("a", PeerDone(first.id, PeerError("silent")))
    assert isinstance(fleet.step("a", asked).reply, BusyError)


def test_question_to_a_silent_host_is_asked_once_however_long_it_takes() -> None:
    """(docs/protocol, NAME-8)"""
    fleet = grown("a", "b")
    asked = JoinerAsked(NodeName("b"), WALL, "other:1")
    fleet.faults = NetworkFaults(answer_ms=(3_600_000, 3_600_000))
    (only,) = (message for message in fleet.step("a", asked).messages if isinstance(message, Ask))
    fleet.run(4 * CLOCK_MS)
    assert isinstance(fleet.step("a", asked).reply, BusyError)
    fleet.step("a", PeerDone(only.id, PeerError("silent")))
    assert isinstance(fleet.step("a", asked).reply, SnapshotHead)


def test_answer_to_an_earlier_question_says_nothing_about_who_is_there_by_now() -> None:
    """(docs/protocol, NAME-6)"""
    fleet = grown("a", "b")
    maps = fleet["b"].maps()
    fleet.faults = NetworkFaults(answer_ms=(3_600_000, 3_600_000))
    fleet.step("a", TransportGap())
    fleet.run(CLOCK_MS)
    before = next(ask for _, name, ask in reversed(fleet.asked) if name == "a" and isinstance(ask.what, AskMaps))
    fleet.crash("b")
    fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1"))
    fleet.step("a", PeerAnswered(before.id, maps))
    assert isinstance(fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1")).reply, BusyError)


def test_lost_node_comes_back_under_its_name_at_another_address() -> None:
    # What is heard of its name, and its agent, speak for itself, not for the node at the address that is registered.
    fleet = grown("a", "b")
    fleet.wipe("b")
    fleet.start("b", addr="elsewhere:1")
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    assert fleet["a"].registry.nodes[NodeName("b")].addr == "elsewhere:1"


def test_name_is_not_given_away_while_it_is_asked_who_is_there() -> None:
    """(docs/protocol, NAME-6)"""
    fleet = grown("a", "b")
    fleet.faults = NetworkFaults(silence_ms=CLOCK_MS)
    fleet.partition(["a"], ["b"])
    replies = []
    for _ in range(3):
        replies.append(fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1")).reply)
        fleet.run(CLOCK_MS // 2 + 100)
    assert [type(reply) for reply in replies] == [BusyError, BusyError, SnapshotHead]


def test_whoever_else_is_at_the_address_does_not_hold_the_name() -> None:
    fleet = grown("a", "b")
    fleet.crash("b")
    fleet.start("c", addr="b:1")
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1"))
    fleet.run(100)
    assert isinstance(fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1")).reply, SnapshotHead)


def test_who_was_there_is_asked_again_after_three_clocks() -> None:
    """(docs/protocol, NAME-7)"""
    fleet = grown("a", "b")
    fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1"))
    fleet.run(3 * CLOCK_MS + 100)  # from the answer on
    fleet.crash("b")
    fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1"))
    fleet.run(100)
    assert isinstance(fleet.step("a", JoinerAsked(NodeName("b"), WALL, "other:1")).reply, SnapshotHead)


@pytest.mark.parametrize("members_seen", [True, False])
def test_joiner_makes_the_dead_node_of_its_name_not_seem_alive(members_seen: bool) -> None:
    fleet = grown("a", "b", members_seen=members_seen)
    fleet.crash("b")
    fleet.run(5 * CLOCK_MS)
    fleet.host("x").node = NodeName("b")
    fleet.start("x")
    assert fleet.run_until(fleet.is_converged, 2 * CLOCK_MS)
    assert fleet["a"].registry.nodes[NodeName("b")].addr == "x:1"


@pytest.mark.parametrize(("members_seen", "silent_clocks"), [(True, 4), (False, 1)])
def test_joiner_does_not_hide_the_live_node_of_its_name(members_seen: bool, silent_clocks: int) -> None:
    """(docs/protocol, NAME-8)"""
    fleet = grown("a", "b", members_seen=members_seen)
    fleet.run(silent_clocks * CLOCK_MS)
    before = fleet["a"].registry.nodes[NodeName("b")]
    fleet.host("x").node = NodeName("b")
    host = fleet.start("x")
    fleet.run(2 * CLOCK_MS)
    assert isinstance(host.fatal, DuplicateNameError)
    assert fleet["a"].registry.nodes[NodeName("b")] == before


def test_wiped_node_at_its_old_address_may_join_at_once() -> None:
    fleet = grown("a", "b")
    fleet.wipe("b")
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 2 * CLOCK_MS)


def test_joiner_whose_name_is_taken_ends() -> None:
    fleet = grown("a")
    ask = _asking(fleet, "new")
    fleet.step("new", PeerDone(ask, ExistsError("a live node is called new")))
    assert isinstance(fleet.members["new"].fatal, DuplicateNameError)


def test_wiped_node_has_a_life_above_the_one_before() -> None:
    fleet = grown("a", "b")
    before = fleet["b"].life or 0
    for _ in range(3):
        fleet.wipe("b")
        fleet.start("b")
        assert fleet.run_until(fleet.is_converged, 2 * CLOCK_MS)
    assert (fleet["b"].life or 0) >= before + 3


def test_empty_node_answers_an_exchange_with_what_it_has() -> None:
    fleet = grown("a")
    fleet.start("new", up=False)
    reply = fleet.step("new", PeerOffered(fleet["a"].maps())).reply
    assert isinstance(reply, TickMaps)
    assert (reply.header.network, reply.held) == (None, {})


def test_sources_of_a_joiner_are_bounded() -> None:
    fleet = grown("a", faults=NetworkFaults(breaks=1.0))
    fleet.run(3 * CLOCK_MS)
    fleet.start("new", up=False)
    ping = fleet.pings()[-1][2]
    for number in range(100):
        header = attrs.evolve(ping.header, node=NodeName(f"n{number}"))
        fleet.step("new", HeardMessage(attrs.evolve(ping, header=header, addr=f"n{number}:1")))
    fleet.transport("new", up=True)
    fleet.partition(["new"])
    fleet.run(100 * CLOCK_MS)
    assert len({addr for addr in _asks(fleet, AskSnapshot, "new") if addr.startswith("n")}) == 64


def test_joiner_does_not_ask_for_maps() -> None:
    fleet = grown("a")
    fleet.start("new")
    fleet.run_until(lambda: fleet["new"].state is State.DOWNLOADING, 2 * CLOCK_MS)
    assert _asks(fleet, AskMaps, "new") == []


def test_joiner_whose_clock_is_more_than_a_day_ahead_is_refused() -> None:
    fleet = grown("a")
    reply = fleet.step("a", JoinerAsked(NodeName("b"), WALL + 100_000, "b:1")).reply
    assert "the clock of b is more than a day ahead" in str(reply)
