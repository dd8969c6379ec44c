"""What was missed is found and fetched: a few replicas in virtual time.

Knows: docs/protocol, 'Event recovery', 'Tick-map exchange' and 'Conflict'.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.client_writes import WriteDone
from distkv.core.ready import (
    AnnounceDue,
    AskEvents,
    AskMaps,
    HeardMessage,
    PeerAnswered,
    PeerDone,
    PeerOffered,
    TransportGap,
)
from distkv.errors import ConnectionLostError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.sim.network import NetworkFaults
from distkv.wire.message import EventBatch, Info, Message, PingChain, PingLink, PullEnd, Update
from distkv.wire.values import unpack_value
from tests.fleet import Fleet, grown
from tests.profiles import seeds

CLOCK_MS = 5000


def _updates(fleet: Fleet, name: str) -> list[Message]:
    return [message for _, sender, message in fleet.sent if sender == name and isinstance(message, Update)]


def _announced(fleet: Fleet, name: str, *, to: str) -> None:
    """One node hears another one say how far its ticks go."""
    (info,) = fleet.step(name, AnnounceDue()).messages
    assert isinstance(info, Info)
    fleet.step(to, HeardMessage(info))


def _pulls(fleet: Fleet, name: str, since_ms: int = 0) -> list[tuple[int, str, AskEvents]]:
    return [
        (at, ask.addr, ask.what)
        for at, sender, ask in fleet.asked
        if sender == name and at >= since_ms and isinstance(ask.what, AskEvents)
    ]


def _exchanges(fleet: Fleet, since_ms: int) -> int:
    return sum(at >= since_ms and isinstance(ask.what, AskMaps) for at, _, ask in fleet.asked)


def _pulling_by_threes(name: str) -> Fleet:
    """a and b; this one has room for three ticks in a pull."""
    fleet = grown("a", "b")
    fleet.crash(name)
    fleet.start(name, pull_events_max=3)
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    return fleet


def _unheard(fleet: Fleet, name: str, *paths: str) -> None:
    """Writes of a node whose updates nobody hears."""
    fleet.faults.update_loss = 1.0
    for path in paths:
        fleet.set(name, path, 1)
    fleet.faults.update_loss = 0.0


# -- gaps


@pytest.mark.parametrize("seed", seeds(10))
def test_gap_is_pulled_within_half_a_second_to_one_and_a_half(seed: int) -> None:
    fleet = grown("a", "b", "c", seed=seed)
    fleet.run(20_000)  # no exchange is planned any more
    _unheard(fleet, "b", "x")
    fleet.set("b", "y", 1)
    began_ms = fleet.now_ms
    fleet.run(2000)
    assert 500 <= _pulls(fleet, "a", began_ms)[0][0] - began_ms <= 1500 + 20
    assert fleet.is_converged()


def test_announced_tick_makes_a_gap() -> None:
    """What was not told in an update is announced by the sender's tick (docs/protocol, UPD-1)."""
    fleet = grown("a", "b")
    fleet.run(1000)
    _unheard(fleet, "b", *(f"x.{number}" for number in range(100)))
    fleet.step("b", AnnounceDue())
    fleet.run(2000)
    assert fleet.is_converged()


def test_announcement_carries_the_own_tick_only() -> None:
    """No ranges move by gossip (docs/protocol, INFO-3)."""
    fleet = grown("a", "b")
    fleet.set("b", "x", 1)
    ready = fleet.step("b", AnnounceDue())
    (info,) = ready.messages
    assert isinstance(info, Info)
    assert info.ticks == {NodeName("b"): [fleet["b"].tick]}
    assert (info.known, info.missing, info.lost) == (None, None, None)


def test_node_that_has_written_nothing_in_its_life_announces_nothing() -> None:
    # Its tick would name no change, and whoever hears such a message drops it as malformed.
    fleet = grown("a", "b")
    assert fleet.step("b", AnnounceDue()).messages == []


def test_long_gap_is_fetched_in_bounded_pulls() -> None:
    fleet = grown("a")
    fleet.start("b", pull_events_max=30)
    assert fleet.run_until(fleet.is_converged, 10_000)
    fleet.run(1000)
    began_ms = fleet.now_ms
    _unheard(fleet, "a", *(f"x.{number}" for number in range(200)))
    fleet.step("a", AnnounceDue())
    assert fleet.run_until(fleet.is_converged, 5000)
    sizes = [len(fleet["a"].pulled(what)[0]) for _, _, what in _pulls(fleet, "b", began_ms)]
    assert max(sizes) == 30
    assert len(sizes) >= 7


def test_pull_that_breaks_off_is_taken_up_again() -> None:
    fleet = grown("a", "b", faults=NetworkFaults(breaks=0.5))
    _unheard(fleet, "a", *(f"x.{number}" for number in range(1000)))
    fleet.step("a", AnnounceDue())
    assert fleet.run_until(fleet.is_converged, 60_000)


# -- what nobody says


def test_last_update_of_a_quiet_node_is_found_by_the_digest_of_its_ping() -> None:
    """Digests find what nobody announces (docs/protocol, UPD-1)."""
    fleet = grown("a", "b", "c")
    fleet.run(1000)
    _unheard(fleet, "b", "x")
    assert fleet.run_until(fleet.is_converged, 6 * CLOCK_MS)
    assert fleet["c"].tree.get(Path(["x"])) is not None


def test_equal_nodes_exchange_nothing() -> None:
    fleet = grown("a", "b", "c")
    fleet.run(10_000)
    began_ms = fleet.now_ms
    fleet.run(100 * CLOCK_MS)
    assert _exchanges(fleet, began_ms) == 0


def test_gap_of_the_transport_starts_an_exchange() -> None:
    fleet = grown("a", "b")
    fleet.run(1000)
    _unheard(fleet, "b", "x")
    fleet.step("a", TransportGap())
    assert fleet.run_until(fleet.is_converged, 500)


def test_transport_that_comes_back_starts_an_exchange() -> None:
    fleet = grown("a", "b")
    fleet.run(1000)
    fleet.transport("a", up=False)
    fleet.set("b", "x", 1)
    fleet.run(1000)
    fleet.transport("a", up=True)
    assert fleet.run_until(fleet.is_converged, 500)


def test_healed_split_starts_an_exchange() -> None:
    fleet = grown("a", "b", "c", "d")
    fleet.partition(["a", "b"], ["c", "d"])
    for name in "abcd":
        fleet.set(name, f"by.{name}", 1)
    fleet.run(20 * CLOCK_MS)
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)


def test_first_of_the_losing_chain_tells_the_winners_why() -> None:
    fleet = grown("a", "b")
    fleet.partition(["a"], ["b"])
    fleet.run(20 * CLOCK_MS)
    fleet.heal()
    fleet.run(3 * CLOCK_MS)
    reasons = [m.reason for _, _, m in fleet.sent if isinstance(m, Info) and m.reason]
    assert len(reasons) == 1


def _heal_first_heard_by_losers() -> tuple[Fleet, int, list[str], list[str]]:
    """Two sides of two nodes are whole again, and the first ping comes from the side that wins.

    Returns the fleet, the time of that ping, and the nodes of the chain of the winners and of the losers, in its order.
    """
    for seed in range(100):
        fleet = grown("a", "b", "c", "d", seed=seed)
        fleet.run(40 * CLOCK_MS)
        fleet.partition(["a", "b"], ["c", "d"])
        fleet.run(20 * CLOCK_MS)
        pings = [(name, ping.chain) for _, name, ping in fleet.pings()]
        chains = {side: max((c for name, c in pings if name in side), key=_head_tock) for side in ("ab", "cd")}
        healed_ms = fleet.now_ms
        fleet.heal()
        while not (new := fleet.pings(since_ms=healed_ms)):
            fleet.run(1)
        at_ms, name, ping = new[0]
        losers = "cd" if name in "ab" else "ab"
        order = list(dict.fromkeys(link.node for link in chains[losers]))
        if _head_tock(ping.chain) > _head_tock(chains[losers]) and len(order) == 2:
            return fleet, at_ms, list(dict.fromkeys(link.node for link in ping.chain)), order
    raise AssertionError("no seed of 100 lets the higher chain speak first")


def _head_tock(chain: PingChain) -> int:
    return chain[0].tock


def _infos(fleet: Fleet, since_ms: int) -> list[tuple[int, str, Info]]:
    return [(at, name, m) for at, name, m in fleet.sent if at >= since_ms and isinstance(m, Info)]


def test_reason_makes_the_first_of_the_winning_chain_speak() -> None:
    fleet, at_ms, winners, _ = _heal_first_heard_by_losers()
    fleet.run(CLOCK_MS // 3)
    told = [(name, m.reason) for _, name, m in _infos(fleet, at_ms) if name in winners]
    assert (winners[0], None) in told  # another one, whom the ping has not reached, may take itself for the first


def test_reason_heard_starts_an_exchange() -> None:
    fleet = grown("a", "b", "c")
    fleet.run(4 * CLOCK_MS)
    began_ms = fleet.now_ms
    header = attrs.evolve(fleet["b"].maps().header, tick=Tick(1))
    strange = (PingLink(NodeName("b"), Tick(1), Tock(3)), PingLink(NodeName("c"), Tick(1), Tock(2)))
    fleet.step("a", HeardMessage(Info(header, "b:1", State.READY, reason=strange)))
    fleet.run(CLOCK_MS)
    assert [name for at, name, ask in fleet.asked if at >= began_ms and isinstance(ask.what, AskMaps)] == ["a"]


def test_first_of_the_losing_chain_that_died_is_replaced_by_the_second() -> None:
    fleet, at_ms, _, losers = _heal_first_heard_by_losers()
    fleet.crash(losers[0])
    fleet.run(CLOCK_MS)
    told = [(at, name) for at, name, m in _infos(fleet, at_ms) if m.reason]
    assert [name for _, name in told] == [losers[1]]
    assert told[0][0] >= at_ms + CLOCK_MS // 2


def test_second_of_the_losing_chain_says_nothing_when_the_first_spoke() -> None:
    fleet, at_ms, _, losers = _heal_first_heard_by_losers()
    fleet.run(2 * CLOCK_MS)
    assert [name for _, name, m in _infos(fleet, at_ms) if m.reason] == [losers[0]]


# -- conflicts


def _contested() -> Fleet:
    """Two values of one path, written in two partitions; healed and converged."""
    fleet = grown("a", "b", "c")
    fleet.partition(["a"], ["b", "c"])
    fleet.set("a", "x", "of a")
    fleet.set("b", "x", "of b")
    fleet.run(1000)
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    return fleet


def test_concurrent_writes_leave_one_open_loser_everywhere() -> None:
    fleet = _contested()
    losers = [[unpack_value(e.value) for e in fleet[name].tree.open_losers()] for name in "abc"]
    assert losers == [["of a"]] * 3 or losers == [["of b"]] * 3


def test_open_loser_known_elsewhere_as_superseded_is_closed_by_an_exchange() -> None:
    fleet = _contested()
    fleet.run(4 * CLOCK_MS)  # no pull is under way any more
    (loser,) = fleet["a"].tree.open_losers()
    known = {loser.node: Ranges.from_ticks([loser.tick])}
    # b learns from a peer that the loser is superseded, as if from the last who had what superseded it.
    fleet.step("b", PeerOffered(attrs.evolve(fleet["a"].maps(), digest=0)))
    ask = fleet.asked[-1][2]
    assert isinstance(ask.what, AskEvents)
    assert ask.what.doubted == known
    fleet.step("b", PeerAnswered(ask.id, PullEnd(known, {})))
    fleet.step("b", PeerDone(ask.id))
    assert list(fleet["b"].tree.open_losers()) == []
    assert fleet.run_until(lambda: not any(list(fleet[name].tree.open_losers()) for name in "abc"), 10 * CLOCK_MS)
    assert fleet.is_converged()


def test_open_losers_are_not_asked_for_where_the_digests_agree() -> None:
    """(docs/protocol, XCHG-6)"""
    fleet = _contested()
    fleet.run(4 * CLOCK_MS)
    before = len(fleet.asked)
    fleet.step("b", PeerOffered(fleet["a"].maps()))
    assert len(fleet.asked) == before


def _seven_losers_at_b() -> Fleet:
    """Seven paths with an open loser of a, and room in a pull of b for three of them."""
    fleet = _pulling_by_threes("b")
    fleet.partition(["a"], ["b"])
    for number in range(7):
        fleet.set("a", f"x.{number}", "of a")
        fleet.set("b", f"x.{number}", "of b")
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    fleet.run(4 * CLOCK_MS)
    assert len(list(fleet["b"].tree.open_losers())) == 7
    fleet.asked.clear()
    return fleet


def _doubted(fleet: Fleet) -> list[list[int]]:
    """Which open losers b asked for, pull by pull."""
    asks = [ask.what for _, name, ask in fleet.asked if name == "b" and isinstance(ask.what, AskEvents)]
    return [sorted(tick for ranges in ask.doubted.values() for tick in ranges) for ask in asks]


def test_more_open_losers_than_one_pull_asks_for_are_all_asked_for_after_one_exchange() -> None:
    fleet = _seven_losers_at_b()
    losers = sorted(event.tick for event in fleet["b"].tree.open_losers())
    fleet.step("b", PeerOffered(attrs.evolve(fleet["a"].maps(), digest=0)))
    fleet.run(CLOCK_MS // 2)
    assert _doubted(fleet) == [losers[:3], losers[3:6], losers[6:]]


def test_open_losers_that_a_broken_pull_left_have_their_turn_in_the_next() -> None:
    """(docs/protocol, XCHG-7)"""
    fleet = _seven_losers_at_b()
    losers = sorted(event.tick for event in fleet["b"].tree.open_losers())
    fleet.faults = NetworkFaults(answer_ms=(3_600_000, 3_600_000))
    for _ in range(2):
        fleet.step("b", PeerOffered(attrs.evolve(fleet["a"].maps(), digest=0)))
        fleet.step("b", PeerDone(fleet.asked[-1][2].id, ConnectionLostError("cut")))
    assert _doubted(fleet) == [losers[:3], losers[3:6]]


def test_many_open_losers_do_not_keep_a_lost_tick_from_coming_back() -> None:
    """(docs/protocol, XCHG-7)"""
    # Open losers are asked for in every exchange; once they filled the pull for ever.
    fleet = _pulling_by_threes("a")
    fleet.partition(["a"], ["b"])
    for number in range(5):
        fleet.set("a", f"x.{number}", 1)
        fleet.set("b", f"x.{number}", 2)
    fleet.set("b", "last", 1)
    fleet.run(1000)
    fleet.step("a", HeardMessage(_updates(fleet, "b")[-1]))
    fleet.run(10 * CLOCK_MS)
    assert fleet["a"].tree.ledger.lost()
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 20 * CLOCK_MS)
    assert fleet["a"].tree.ledger.is_whole


def test_more_lost_ticks_than_fit_in_one_pull_come_back_without_waiting_for_the_next_ping() -> None:
    # Found by the simulator (seeds 21 and 72 of its first days): one pull for each exchange was one for each ping.
    fleet = _pulling_by_threes("a")
    fleet.partition(["a"], ["b"])
    for number in range(60):
        fleet.set("b", f"x.{number}", 1)
    fleet.run(1000)
    fleet.step("a", HeardMessage(_updates(fleet, "b")[-1]))
    fleet.run(10 * CLOCK_MS)
    assert fleet["a"].tree.ledger.lost()
    fleet.heal()
    assert fleet.run_until(lambda: fleet["a"].tree.ledger.is_whole, 6 * CLOCK_MS)


def test_tick_heard_of_after_a_peer_was_asked_is_not_one_that_it_lacks() -> None:
    # GAP-5: what it says is of the instant at which it was asked; it may have made the change since.
    fleet = _pulling_by_threes("a")
    fleet.run(4 * CLOCK_MS)
    fleet.faults = NetworkFaults(silence_ms=100_000)
    fleet.partition(["a"], ["b"])
    for number in range(10):
        fleet.set("b", f"x.{number}", 1)
    _announced(fleet, "b", to="a")
    fleet.step("a", TransportGap())
    fleet.run(200)
    ask, answer = fleet.asked[-1][2], fleet["b"].maps()
    assert isinstance(ask.what, AskMaps)
    fleet.set("b", "y", 1)
    _announced(fleet, "b", to="a")
    fleet.step("a", PeerAnswered(ask.id, answer))
    fleet.step("a", PeerDone(ask.id))
    fleet.step("a", TransportGap())
    fleet.run(1000)
    assert not fleet["a"].tree.ledger.lost()


def test_what_only_a_lost_disk_held_is_soon_given_up_however_much_it_is() -> None:
    # GAP-5, GAP-6: each waits for the other one. What the empty node lacks was told pull by pull, one in a second.
    fleet = _pulling_by_threes("a")
    fleet.partition(["a"], ["b"])
    for number in range(300):
        fleet.set("b", f"x.{number}", 1)
    fleet.step("a", HeardMessage(_updates(fleet, "b")[-1]))
    fleet.run(100)
    fleet.crash("a")
    fleet.wipe("b")
    fleet.heal()
    fleet.start("b")
    fleet.start("a", pull_events_max=3)
    assert fleet.run_until(fleet.all_ready, 5 * CLOCK_MS)


# -- answers


def test_pull_is_answered_with_what_is_superseded_and_what_is_not_there() -> None:
    fleet = grown("a")
    for value in range(3):
        fleet.set("a", "x", value)
    last = fleet["a"].tick
    asked = {NodeName("a"): Ranges([(last - 2, last + 5)]), NodeName("z"): Ranges([(1, 3)])}
    _, end = fleet["a"].pulled(AskEvents(asked))
    assert end.known == {NodeName("a"): Ranges([(last - 2, last)])}
    assert end.lacks == {NodeName("a"): Ranges([(last + 1, last + 5)]), NodeName("z"): Ranges([(1, 3)])}


def test_answer_that_comes_twice_changes_nothing() -> None:
    fleet = grown("a", "b")
    _unheard(fleet, "b", "x")
    event = fleet["b"].tree.get(Path(["x"]))
    assert event is not None
    fleet.step("a", PeerOffered(fleet["b"].maps()))
    ask = fleet.asked[-1][2]
    batch = EventBatch((event.head,))
    first, second = (fleet.step("a", PeerAnswered(ask.id, batch)) for _ in range(2))
    assert ([record.event for record in first.records if hasattr(record, "event")], second.records) == (
        [event.head],
        [],
    )


def test_peer_without_an_address_is_not_pulled_from() -> None:
    fleet = grown("a", "b")
    _unheard(fleet, "b", "x")
    fleet.members["b"].addr = ""
    fleet.crash("b")
    fleet.start("b", up=False)
    ready = fleet.step("a", PeerOffered(fleet["b"].maps()))
    assert ready.messages == []


def test_write_while_cut_from_all_is_open_to_nobody_else_until_healed() -> None:
    fleet = grown("a", "b")
    fleet.partition(["a"], ["b"])
    assert isinstance(fleet.set("a", "x", 1).reply, WriteDone)
    fleet.run(5 * CLOCK_MS)
    assert fleet["b"].tree.get(Path(["x"])) is None


# -- what ledgers cannot mend


def test_what_burned_with_an_overwriter_is_compared_whatever_the_ledgers_say() -> None:
    # b says that its first write is superseded, and dies with what superseded it; a has the first as the winner.
    # The ledgers agree, the trees do not: no ledger can mend this, but it is noticed.
    fleet = grown("a", "b", "c")
    fleet.partition(["a", "b"], ["c"])
    fleet.set("b", "x", 1)
    fleet.run(1000)
    fleet.partition(["a"], ["b", "c"])
    _unheard(fleet, "b", "x")
    known = PullEnd({NodeName("b"): Ranges([(fleet["b"].tick - 1, fleet["b"].tick)])}, {})  # as older releases say it
    fleet.step("c", PeerOffered(fleet["a"].maps()))
    ask = fleet.asked[-1][2]
    fleet.step("c", PeerAnswered(ask.id, known))
    fleet.step("c", PeerDone(ask.id))
    fleet.wipe("b")
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 20 * CLOCK_MS)
    assert fleet.notes["digest_differs"] > 0
    assert fleet["c"].tree.get(Path(["x"])) is not None


def test_many_open_losers_are_asked_for_by_turns() -> None:
    # c holds ten open losers which the others know as superseded, and asks for three in each exchange.
    fleet = grown("a", "b")
    fleet.start("c", pull_events_max=3)
    assert fleet.run_until(fleet.is_converged, 20_000)
    fleet.partition(["a"], ["b", "c"])
    for number in range(10):
        fleet.set("a", f"x.{number}", 1)
        fleet.set("b", f"x.{number}", 2)
    fleet.run(1000)
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 20 * CLOCK_MS)
    losers = list(fleet["a"].tree.open_losers())
    known = {losers[0].node: Ranges.from_ticks(sorted(loser.tick for loser in losers))}
    for name in "ab":
        fleet.step(name, PeerOffered(attrs.evolve(fleet["c"].maps(), digest=0)))
        ask = fleet.asked[-1][2]
        fleet.step(name, PeerAnswered(ask.id, PullEnd(known, {})))
        fleet.step(name, PeerDone(ask.id))
    assert len(losers) == 10
    assert fleet.run_until(lambda: not list(fleet["c"].tree.open_losers()), 40 * CLOCK_MS)
    assert fleet.is_converged()
