"""What anybody may claim about others' ticks, lives and names: it may cost a life, and no node its service.

Knows: docs/protocol, 'Between two nodes over TCP': nobody proves who he is.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.ready import AskMaps, JoinerAsked, PeerAnswered, PeerDone, PeerOffered
from distkv.core.sponsor import LOOKS_MAX
from distkv.errors import BusyError
from distkv.model.event import COUNT_BITS, LIFE_MAX, NodeName, Tick
from distkv.sim.clock import WALL
from distkv.sim.network import NetworkFaults
from distkv.wire.message import SnapshotHead
from tests.fleet import Fleet, grown

CLOCK_MS = 5000
A, B, C = NodeName("a"), NodeName("b"), NodeName("c")


def claim(fleet: Fleet, to: str, about: NodeName, *ticks: int) -> None:
    """Somebody tells `to`, in the name of `c`, that these ticks exist."""
    maps = fleet["c"].maps()
    known = maps.ticks.get(about, [])
    fleet.step(to, PeerOffered(attrs.evolve(maps, ticks={**maps.ticks, about: sorted({*known, *map(Tick, ticks)})})))


def test_claims_about_the_last_life_cost_a_node_a_life_and_no_more() -> None:
    """(docs/protocol, TICK-8)"""
    fleet = grown("a", "b", "c")
    for _ in range(3):
        life = fleet["b"].life or 0
        claim(fleet, "b", B, fleet["b"].tick + 1, (LIFE_MAX << COUNT_BITS) + 1)
        assert life < (fleet["b"].life or 0) < LIFE_MAX // 2
        fleet.set("b", "x", life)
    assert fleet.run_until(fleet.is_converged, 10 * CLOCK_MS)


def test_claim_about_a_tick_far_ahead_is_given_up_in_a_few_pulls() -> None:
    """(docs/protocol, GAP-6)"""
    fleet = grown("a", "b", "c")
    fleet.run(3 * CLOCK_MS)
    asked = len(fleet.asked)
    claim(fleet, "b", C, fleet["c"].tick + (1 << 31))
    ledger = fleet["b"].tree.ledger
    assert fleet.run_until(lambda: not ledger.missing(but_lost=True), 2 * CLOCK_MS)
    assert not ledger.is_whole  # lost ends the waiting only
    assert len(fleet.asked) - asked < 20


def test_claim_about_a_tick_far_ahead_keeps_no_start_from_readiness() -> None:
    fleet = grown("a", "b", "c")
    fleet.crash("a")
    claim(fleet, "b", C, fleet["c"].tick + (1 << 31))
    fleet.start("a")
    assert fleet.run_until(lambda: fleet["a"].is_serving, 5 * CLOCK_MS)


def test_nobody_gets_a_new_life_for_a_node_that_serves_at_its_own_address() -> None:
    fleet = grown("a", "b", "c")
    before = fleet["b"].life
    for _ in range(12):
        reply = fleet.step("a", JoinerAsked(B, fleet["b"].started + 1, fleet.hosts["b"].addr)).reply
        assert isinstance(reply, BusyError)
        fleet.run(2000)
    assert (fleet["b"].life, fleet["a"].registry.nodes[B].life) == (before, before)


def test_node_that_lost_its_disk_is_sponsored_at_the_same_address() -> None:
    fleet = grown("a", "b", *(f"n{number}" for number in range(20)))
    before = fleet["b"].life or 0
    fleet.wipe("b")
    fleet.run(1000)
    fleet.start("b")
    assert fleet.run_until(lambda: fleet["b"].is_serving, 2 * CLOCK_MS)
    assert (fleet["b"].life or 0) > before


def test_that_nobody_had_a_name_is_forgotten_when_another_node_sponsored_it() -> None:
    # NAME-7: a found nobody, and then c let b in.
    fleet = grown("a", "b", "c")
    fleet.wipe("b")
    assert isinstance(fleet.step("a", JoinerAsked(B, WALL, "b:1")).reply, BusyError)
    fleet.run(100)
    fleet.partition(["a"], ["b", "c"])
    fleet.start("b")
    assert fleet.run_until(lambda: fleet["b"].is_serving, CLOCK_MS)
    fleet.heal()
    fleet.step("a", PeerOffered(fleet["c"].maps()))
    fleet.run(100)
    assert fleet["a"].registry.nodes[B].life == fleet["b"].life
    reply = fleet.step("a", JoinerAsked(B, fleet["b"].started, "elsewhere:1")).reply
    assert isinstance(reply, BusyError)


def test_no_more_questions_are_under_way_than_names_are_looked_for() -> None:
    fleet = grown("a")
    moved = [NodeName(f"n{number}") for number in range(LOOKS_MAX + 5)]
    for name in moved:
        fleet.step("a", JoinerAsked(name, WALL, f"{name}:1"))
    fleet.faults = NetworkFaults(answer_ms=(3_600_000, 3_600_000))
    count = len(fleet.asked)
    replies = [fleet.step("a", JoinerAsked(name, WALL, f"{name}:2")).reply for name in moved]
    assert all(isinstance(reply, BusyError) for reply in replies)
    assert len(fleet.asked) - count == LOOKS_MAX


def test_answer_in_another_name_is_no_word_of_who_was_asked() -> None:
    fleet = grown("a", "b", "c")
    fleet.run(3 * CLOCK_MS)
    before = fleet["a"].life
    fleet.crash("a")
    fleet.crash("c")
    fleet.faults = NetworkFaults(answer_ms=(3_600_000, 3_600_000))
    fleet.start("a")
    for ask in [ask for _, name, ask in fleet.asked if name == "a" and ask.addr == fleet.hosts["b"].addr]:
        if isinstance(ask.what, AskMaps):
            for name in (B, C):
                maps = fleet["b"].maps()
                header = attrs.evolve(maps.header, node=name)
                fleet.step("a", PeerAnswered(ask.id, attrs.evolve(maps, header=header)))
            fleet.step("a", PeerDone(ask.id))
    assert fleet.run_until(lambda: fleet["a"].is_serving, 3 * CLOCK_MS)
    fleet.set("a", "x", 1)
    assert fleet["a"].life != before  # c said nothing


def test_strangers_values_are_not_compared_with_ours() -> None:
    fleet = grown("a", "b")
    fleet.run(3 * CLOCK_MS)
    maps = fleet["b"].maps()
    stranger = attrs.evolve(maps.header, node=NodeName("x"))
    for _ in range(3):
        fleet.step("a", PeerOffered(attrs.evolve(maps, header=stranger, digest=7, held=fleet["a"].tree.ledger.held())))
        fleet.run(CLOCK_MS)
    assert fleet.notes["digest_differs"] == 0


@pytest.mark.parametrize("life", [0, 500])  # seeds 4093 and 4682; 1147
def test_two_sponsors_give_different_lives_where_the_clock_of_the_joiner_cannot_tell(life: int) -> None:
    """(docs/protocol, TICK-7)"""
    fleet = grown("a", "b")
    if life:
        fleet.step("a", JoinerAsked(NodeName("new"), WALL + life, "new:1"))
        assert fleet.run_until(fleet.is_converged, CLOCK_MS)
    fleet.partition(["a"], ["b"])
    fleet.faults = NetworkFaults(silence_ms=500)
    lives = set()
    for _ in range(2):  # the first time they may have to ask who is there
        for name in ("a", "b"):
            reply = fleet.step(name, JoinerAsked(NodeName("new"), 1.0, "new:1")).reply
            if isinstance(reply, SnapshotHead):
                lives.add(reply.life)
        fleet.run(1000)
    assert life < min(lives)
    assert len(lives) == 2
