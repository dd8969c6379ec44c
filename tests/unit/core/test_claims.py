"""What anybody may claim about others' ticks, lives and names: it may cost a life, and no node its service.

Knows: docs/protocol, 'Between two nodes over TCP': nobody proves who he is.
"""

from __future__ import annotations

import attrs

from distkv.core.ready import JoinerAsked, PeerOffered
from distkv.errors import BusyError
from distkv.model.event import COUNT_BITS, LIFE_MAX, NodeName, Tick
from tests.fleet import Fleet, grown

CLOCK_MS = 5000
A, B, C = NodeName("a"), NodeName("b"), NodeName("c")


def claim(fleet: Fleet, to: str, about: NodeName, *ticks: int) -> None:
    """Somebody tells `to`, in the name of `c`, that these ticks exist."""
    maps = fleet["c"].maps()
    known = maps.ticks.get(about, [])
    fleet.step(to, PeerOffered(attrs.evolve(maps, ticks={**maps.ticks, about: sorted({*known, *map(Tick, ticks)})})))


def test_claims_about_the_last_life_cost_a_node_a_life_and_no_more() -> None:
    fleet = grown("a", "b", "c")
    for _ in range(3):
        life = fleet["b"].life or 0
        claim(fleet, "b", B, fleet["b"].tick + 1, (LIFE_MAX << COUNT_BITS) + 1)
        assert life < (fleet["b"].life or 0) < LIFE_MAX // 2
        fleet.set("b", "x", life)
    assert fleet.run_until(fleet.is_converged, 10 * CLOCK_MS)


def test_claim_about_a_tick_far_ahead_is_given_up_in_a_few_pulls() -> None:
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
        reply = fleet.step("a", JoinerAsked(B, fleet["b"].started + 1, fleet["b"].addr)).reply
        assert isinstance(reply, BusyError)
        fleet.run(2000)
    assert (fleet["b"].life, fleet["a"].registry[B].life) == (before, before)


def test_node_that_lost_its_disk_is_sponsored_at_the_same_address() -> None:
    fleet = grown("a", "b", *(f"n{number}" for number in range(20)))
    before = fleet["b"].life or 0
    fleet.wipe("b")
    fleet.run(1000)
    fleet.start("b")
    assert fleet.run_until(lambda: fleet["b"].is_serving, 2 * CLOCK_MS)
    assert (fleet["b"].life or 0) > before
