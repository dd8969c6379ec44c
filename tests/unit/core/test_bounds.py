"""What a node sees of delivery times and of partitions: the observer alone, then in fleets.

Knows: when pings leave and come.  Does not know who judges that.
"""

from __future__ import annotations

import pytest

from distkv.core.bounds import SAMPLES, Bounds
from distkv.model.event import NodeName, Tick, Tock
from distkv.sim.network import NetworkFaults
from distkv.wire.message import PingChain, PingLink
from tests.fleet import Fleet, grown

CLOCK_MS = 5000


def link(node: str, tock: int) -> PingLink:
    return PingLink(NodeName(node), Tick(1), Tock(tock))


def ours(tock: int = 100) -> PingChain:
    return (link("me", tock), link("b", tock - 1), link("c", tock - 2))


def after(chain: PingChain, node: str) -> PingChain:
    return (link(node, chain[0].tock + 1), *chain[:3])


def followed(*took_ms: int, by: str = "c") -> tuple[int, int] | None:
    """What is told when our pings were followed after these times."""
    bounds = Bounds(CLOCK_MS)
    for number, ms in enumerate(took_ms):
        chain, at_ms = ours(100 + 10 * number), 20_000 * number
        bounds.sent(chain, at_ms)
        bounds.heard(after(chain, by), at_ms + ms)
    return bounds.seen().delivery_ms


# -- delivery


@pytest.mark.parametrize(
    ("by", "took_ms", "found"),
    [
        pytest.param("c", 5000, (0, 0), id="the last one sends in 0 to 15 %, and was at once"),
        pytest.param("c", 5750, (0, 375), id="all of it may have been waiting"),
        pytest.param("c", 7000, (625, 1000), id="two deliveries took 1250 to 2000"),
        pytest.param("b", 9500, (0, 1875), id="the one between sends in 15 to 90 %"),
    ],
)
def test_ping_that_follows_ours_tells_how_long_two_deliveries_took(
    by: str, took_ms: int, found: tuple[int, int]
) -> None:
    """(docs/protocol, PING-15)"""
    assert followed(took_ms, by=by) == found


def test_who_is_off_the_chain_sends_at_once() -> None:
    assert followed(7000, by="off") == (1000, 1000)


@pytest.mark.parametrize(("by", "took_ms"), [("me", 7000), ("off", 12_500)])
def test_who_may_have_sent_at_any_moment_tells_nothing(by: str, took_ms: int) -> None:
    assert followed(took_ms, by=by) is None


@pytest.mark.parametrize(
    "chain", [(link("c", 101),), (link("c", 103), link("b", 102), link("me", 100)), (link("c", 101), link("x", 100))]
)
def test_ping_that_does_not_follow_ours_directly_tells_nothing(chain: PingChain) -> None:
    """(docs/protocol, PING-15)"""
    bounds = Bounds(CLOCK_MS)
    bounds.sent(ours(), 0)
    bounds.heard(chain, 7000)
    assert bounds.seen().delivery_ms is None


def test_one_slow_delivery_among_others_is_not_told() -> None:
    assert followed(5750, 60_000, 5750) == (0, 375)


def test_what_is_told_follows_the_latest_deliveries() -> None:
    assert followed(*[5750] * SAMPLES, *[7000] * (SAMPLES // 2 + 1)) == (625, 1000)


@pytest.mark.parametrize("delay_ms", [100, 500, 2000])
def test_delivery_in_a_fleet_lies_between_what_is_told(delay_ms: int) -> None:
    fleet = grown("a", "b", "c", seed=1, faults=NetworkFaults(delay_ms=(delay_ms, delay_ms)))
    fleet.run(40 * CLOCK_MS)
    told = [found for name in "abc" if (found := fleet[name].bounds.delivery_ms) is not None]
    assert told, "only who takes turns with another one has pings that are followed"
    for least, most in told:
        assert least <= delay_ms <= most


# -- partitions


def met(*at_ms: int) -> int:
    bounds = Bounds(CLOCK_MS)
    for ms in at_ms:
        bounds.met(ms)
    return bounds.seen().partitions


def test_no_split_means_one_partition() -> None:
    assert met() == 1


def test_sides_that_meet_together_are_counted_together() -> None:
    """(docs/protocol, PING-16)"""
    assert met(0, 3 * CLOCK_MS) == 3


def test_sides_that_meet_later_were_not_partitions_at_one_time() -> None:
    """(docs/protocol, PING-16)"""
    assert met(0, 3 * CLOCK_MS + 1, 60 * CLOCK_MS) == 2


def test_largest_meeting_is_told() -> None:
    assert met(0, 1, 100 * CLOCK_MS) == 3


@pytest.mark.parametrize("sides", [("a", "bc"), ("a", "b", "c")])
def test_split_of_a_fleet_is_seen_with_its_sides_when_it_heals(sides: tuple[str, ...]) -> None:
    fleet: Fleet = grown("a", "b", "c")
    fleet.run(10 * CLOCK_MS)
    assert [fleet[name].bounds.partitions for name in "abc"] == [1] * 3
    fleet.partition(*map(list, sides))
    fleet.run(20 * CLOCK_MS)
    fleet.heal()
    fleet.run(10 * CLOCK_MS)
    assert max(fleet[name].bounds.partitions for name in "abc") == len(sides)
