"""What becomes of a message on its way.

Knows: `distkv.sim.network`.
"""

from __future__ import annotations

from distkv.sim.network import Network, NetworkFaults


def _arrivals(network: Network, count: int = 1000, *, is_update: bool = False) -> list[int]:
    return [delay for _ in range(count) for delay in network.gossip("a", "b", is_update=is_update)]


def test_way_that_is_cut_carries_nothing_and_the_other_way_does() -> None:
    network = Network(0)
    network.cut.add(("a", "b"))
    assert (list(network.gossip("a", "b", is_update=False)), len(list(network.gossip("b", "a", is_update=False)))) == (
        [],
        1,
    )


def test_connection_needs_both_ways() -> None:
    network = Network(0)
    network.cut.add(("a", "b"))
    assert not network.connects("b", "a")


def test_partition_cuts_all_ways_between_sides_and_who_is_on_none_from_all() -> None:
    network = Network(0)
    network.partition([["a", "b"], ["c"]], "abcd")
    assert {way for way in ("ab", "ac", "ca", "ad", "dc") if network.passes(*way)} == {"ab"}


def test_who_is_back_hears_also_who_is_isolated_still_and_nobody_else_does() -> None:
    network = Network(0)
    network.isolate("a", "abc")
    network.isolate("b", "abc")
    network.rejoin("a")
    assert {way for way in ("ab", "ba", "ac", "ca", "bc", "cb") if network.passes(*way)} == {"ab", "ba", "ac", "ca"}


def test_delays_stay_within_their_bounds_and_reach_them() -> None:
    delays = _arrivals(Network(0, NetworkFaults(delay_ms=(3, 7))))
    assert set(delays) == {3, 4, 5, 6, 7}


def test_loss_takes_its_share() -> None:
    assert 600 < len(_arrivals(Network(0, NetworkFaults(loss=0.3)))) < 800


def test_updates_are_lost_first() -> None:
    network = Network(0, NetworkFaults(update_loss=1.0))
    assert (_arrivals(network, is_update=True), len(_arrivals(network))) == ([], 1000)


def test_duplication_makes_copies() -> None:
    assert 1200 < len(_arrivals(Network(0, NetworkFaults(duplication=0.3)))) < 1400


def test_late_gossip_comes_by_push_and_pull() -> None:
    delays = _arrivals(Network(0, NetworkFaults(late=0.1, late_ms=(2000, 3000))))
    assert 50 < sum(delay >= 2000 for delay in delays) < 150


def test_own_messages_always_come_back_at_once() -> None:
    network = Network(0, NetworkFaults(loss=1.0, late=1.0))
    assert all(delay <= 20 for delay in network.gossip("a", "a", is_update=True))


def test_one_way_meets_the_same_whatever_the_others_carry() -> None:
    alone, busy = Network(7, NetworkFaults(loss=0.5)), Network(7, NetworkFaults(loss=0.5))
    found = []
    for network, others in ((alone, 0), (busy, 3)):
        fates = []
        for _ in range(50):
            for _ in range(others):
                network.gossip("b", "c", is_update=False)
            fates.append(list(network.gossip("a", "b", is_update=False)))
        found.append(fates)
    assert found[0] == found[1]
