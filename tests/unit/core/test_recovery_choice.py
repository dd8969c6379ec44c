"""Whom to ask, and when: the recovery machine alone.

Knows: docs/protocol, 'Gap repair without a split', 'Tick-map exchange', 'Lost'.  Does not know trees or messages.
"""

from __future__ import annotations

import random

import pytest

from distkv.core.recovery import PEERS_MAX, Recovery
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from tests.profiles import seeds

CLOCK_MS = 5000


def ranges(**ticks: list[int]) -> TickRanges:
    return {NodeName(name): Ranges.from_ticks(some) for name, some in ticks.items()}


def machine(*peers: str, seed: int = 0) -> Recovery:
    """A machine of node `me` that just heard these peers."""
    recovery = Recovery(NodeName("me"), CLOCK_MS, random.Random(seed))
    for name in peers:
        recovery.saw(NodeName(name), f"{name}:1", 0)
    return recovery


def pulls_from(recovery: Recovery, missing: TickRanges) -> str | None:
    """Whom it pulls from when its time comes."""
    recovery.gap_seen(0)
    peer = recovery.next_pull(1500, missing)
    return None if peer is None else peer.name


# -- pulls


@pytest.mark.parametrize("seed", seeds(20))
def test_gap_is_due_after_half_a_second_to_one_and_a_half(seed: int) -> None:
    recovery = machine("a", seed=seed)
    recovery.gap_seen(1000)
    assert 1500 <= (recovery.wake_ms() or 0) < 2500


def test_times_of_many_nodes_are_spread() -> None:
    times = []
    for seed in range(100):
        recovery = machine("a", seed=seed)
        recovery.gap_seen(0)
        times.append(recovery.wake_ms() or 0)
    assert min(times) < 600
    assert max(times) > 1400


def test_gap_that_closed_in_time_is_not_pulled() -> None:
    recovery = machine("a")
    recovery.gap_seen(0)
    recovery.gap_closed()
    assert recovery.next_pull(5000, ranges(a=[1])) is None


def test_further_gap_does_not_push_the_pull_back() -> None:
    recovery = machine("a")
    recovery.gap_seen(0)
    due_ms = recovery.wake_ms()
    recovery.gap_seen(400)
    assert recovery.wake_ms() == due_ms


def test_of_a_pull_and_an_exchange_the_earlier_wakes() -> None:
    recovery = machine("a")
    recovery.gap_seen(0)
    pull_ms = recovery.wake_ms()
    recovery.exchange_soon(0)
    exchange_ms = recovery.wake_ms()
    assert exchange_ms is not None
    assert pull_ms is not None
    assert exchange_ms < pull_ms


def test_one_pull_is_under_way_at_a_time() -> None:
    recovery = machine("a", "b")
    recovery.gap_seen(0)
    recovery.next_pull(1500, ranges(a=[1]))
    recovery.gap_seen(1500)
    assert (recovery.wake_ms(), recovery.is_pulling) == (None, True)


@pytest.mark.parametrize("seed", seeds(20))
def test_origin_is_last_when_another_is_known_to_have_it(seed: int) -> None:
    recovery = machine("a", "b", "c", seed=seed)
    recovery.maps_came(NodeName("b"), ranges(a=[1, 2]))
    assert pulls_from(recovery, ranges(a=[2])) == "b"


@pytest.mark.parametrize("seed", seeds(20))
def test_origin_is_first_when_nobody_is_known_to_have_it(seed: int) -> None:
    recovery = machine("a", "b", "c", seed=seed)
    recovery.maps_came(NodeName("b"), ranges(a=[1]))
    assert pulls_from(recovery, ranges(a=[2])) == "a"


def test_several_that_have_it_share_the_load() -> None:
    chosen = set()
    for seed in range(40):
        recovery = machine("a", "b", "c", "d", seed=seed)
        for name in "bcd":
            recovery.maps_came(NodeName(name), ranges(a=[2]))
        chosen.add(pulls_from(recovery, ranges(a=[2])))
    assert chosen == {"b", "c", "d"}


def test_peer_that_just_failed_is_not_preferred() -> None:
    recovery = machine("a", "b")
    recovery.gap_seen(0)
    recovery.next_pull(1500, ranges(a=[1]))
    recovery.pull_failed(NodeName("a"), 1500, is_whole=False)
    due_ms = recovery.wake_ms() or 0
    assert recovery.next_pull(min(due_ms, 2499), ranges(a=[1])) is None or due_ms < 2500


def test_peer_that_failed_comes_after_one_that_did_not() -> None:
    recovery = machine("a", "b")
    recovery.pull_started()
    recovery.pull_failed(NodeName("a"), 1000, is_whole=True)
    recovery.gap_seen(0)
    peer = recovery.next_pull(1600, ranges(a=[1]))
    assert peer is not None
    assert peer.name == "b"


def test_dead_peer_comes_after_a_live_one() -> None:
    recovery = machine("a")
    recovery.saw(NodeName("b"), "b:1", 20_000)
    recovery.gap_seen(20_000)
    peer = recovery.next_pull(22_000, ranges(a=[1]))
    assert peer is not None
    assert peer.name == "b"


@pytest.mark.parametrize("seed", seeds(10))
def test_who_said_that_it_lacks_all_comes_last(seed: int) -> None:
    recovery = machine("a", "b", seed=seed)
    recovery.pull_started()
    recovery.pull_ended(NodeName("a"), ranges(a=[1, 2]), 0, brought=True, is_whole=True)
    assert pulls_from(recovery, ranges(a=[2])) == "b"


def test_with_nobody_to_ask_it_tries_again_later() -> None:
    recovery = machine()
    recovery.gap_seen(0)
    assert recovery.next_pull(1500, ranges(a=[1])) is None
    assert (recovery.wake_ms() or 0) >= 2000


def test_peer_without_an_address_is_not_asked() -> None:
    recovery = machine()
    recovery.saw(NodeName("a"), "", 0)
    assert pulls_from(recovery, ranges(a=[1])) is None


@pytest.mark.parametrize(("brought", "bounds"), [(True, (20, 120)), (False, (500, 1500))])
def test_when_more_is_missing_it_goes_on_soon_if_the_pull_brought_something(
    brought: bool, bounds: tuple[int, int]
) -> None:
    recovery = machine("a")
    recovery.pull_started()
    recovery.pull_ended(NodeName("a"), {}, 0, brought=brought, is_whole=False)
    assert bounds[0] <= (recovery.wake_ms() or 0) <= bounds[1]


def test_pull_that_ended_with_everything_there_leaves_nothing_due() -> None:
    recovery = machine("a")
    recovery.pull_started()
    recovery.pull_ended(NodeName("unheard"), {}, 0, brought=True, is_whole=True)
    assert (recovery.wake_ms(), recovery.is_idle) == (None, True)


# -- exchanges


@pytest.mark.parametrize("seed", seeds(20))
def test_difference_starts_an_exchange_after_a_second_of_quiet(seed: int) -> None:
    recovery = machine("a", seed=seed)
    recovery.differed(NodeName("a"), 9_900, 10_000)
    assert 10_900 <= (recovery.wake_ms() or 0) <= 10_900 + CLOCK_MS / 4


def test_exchange_is_with_whom_the_difference_was_seen() -> None:
    recovery = machine("a", "b", "c")
    recovery.differed(NodeName("b"), 0, 10_000)
    peer = recovery.next_exchange(13_000)
    assert peer is not None
    assert peer.name == "b"


def test_exchange_with_one_unheard_goes_to_anybody() -> None:
    recovery = machine("a")
    recovery.differed(NodeName("unheard"), 0, 10_000)
    peer = recovery.next_exchange(13_000)
    assert peer is not None
    assert peer.name == "a"


def test_agreement_before_its_time_makes_an_exchange_needless() -> None:
    recovery = machine("a")
    recovery.differed(NodeName("a"), 0, 10_000)
    recovery.agreed(NodeName("a"))
    assert recovery.wake_ms() is None


def test_agreement_of_another_does_not_settle_a_difference() -> None:
    recovery = machine("a", "b")
    recovery.differed(NodeName("a"), 0, 10_000)
    recovery.agreed(NodeName("b"))
    assert recovery.wake_ms() is not None


def test_one_exchange_is_under_way_at_a_time() -> None:
    recovery = machine("a", "b")
    recovery.exchange_soon(0)
    assert recovery.next_exchange(1000) is not None
    recovery.exchange_soon(1000)
    assert (recovery.wake_ms(), recovery.next_exchange(5000)) == (None, None)


def test_exchange_that_failed_makes_room_for_the_next() -> None:
    recovery = machine("a")
    recovery.exchange_soon(0)
    recovery.next_exchange(1000)
    recovery.exchange_ended()
    recovery.unreachable(NodeName("a"), 1000)
    recovery.exchange_soon(1000)
    assert recovery.next_exchange(2000) is not None


@pytest.mark.parametrize("seed", seeds(10))
def test_exchange_that_failed_is_had_with_another_one_at_once(seed: int) -> None:
    recovery = machine("a", "b", seed=seed)
    recovery.differed(NodeName("a"), 0, 10_000)
    recovery.next_exchange(13_000)
    recovery.exchange_ended()
    recovery.exchange_failed(NodeName("a"), 16_000)
    assert (recovery.wake_ms() or 0) <= 16_120
    peer = recovery.next_exchange(16_120)
    assert peer is not None
    assert peer.name == "b"
    recovery.exchange_ended()
    recovery.exchange_failed(NodeName("b"), 16_200)
    assert recovery.wake_ms() is None, "once"


def test_exchange_that_failed_with_the_only_other_node_is_not_had_again() -> None:
    recovery = machine("a")
    recovery.differed(NodeName("a"), 0, 10_000)
    recovery.next_exchange(13_000)
    recovery.exchange_ended()
    recovery.exchange_failed(NodeName("a"), 16_000)
    assert recovery.wake_ms() is None


def test_sooner_exchange_replaces_a_later_one() -> None:
    recovery = machine("a", "b")
    recovery.differed(NodeName("a"), 0, 10_000)
    recovery.exchange_soon(10_000, NodeName("b"))
    recovery.differed(NodeName("a"), 0, 10_000)
    peer = recovery.next_exchange(10_120)
    assert peer is not None
    assert peer.name == "b"


def test_exchange_with_nobody_there_is_dropped() -> None:
    recovery = machine()
    recovery.exchange_soon(0)
    assert (recovery.next_exchange(1000), recovery.wake_ms()) == (None, None)


# -- peers


def test_own_name_is_no_peer() -> None:
    recovery = machine("me")
    recovery.maps_came(NodeName("me"), {})
    assert recovery.peers == {}


def full_of_strangers(*registered: str) -> Recovery:
    recovery = Recovery(NodeName("me"), CLOCK_MS, random.Random(0), registered.__contains__)
    for number in range(PEERS_MAX + 5):
        recovery.saw(NodeName(f"n{number}"), f"n{number}:1", 0)
    return recovery


def test_peers_are_bounded() -> None:
    recovery = full_of_strangers()
    recovery.members_seen({NodeName(f"late{number}"): "late:1" for number in range(PEERS_MAX + 5)})
    recovery.saw(NodeName("later"), "later:1", 0)
    assert len(recovery.peers) == PEERS_MAX
    assert "later" not in recovery.peers


def test_member_takes_the_place_of_a_stranger() -> None:
    recovery = full_of_strangers()
    recovery.members_seen({NodeName("n0"): "n0:1", NodeName("late"): "late:1"})
    assert recovery.peers.keys() >= {"n0", "late"}
    assert len(recovery.peers) == PEERS_MAX


@pytest.mark.parametrize("how", ["saw", "registered", "maps_came"])
def test_registered_node_takes_the_place_of_a_stranger(how: str) -> None:
    recovery = full_of_strangers("n0", "late")
    match how:
        case "saw":
            recovery.saw(NodeName("late"), "late:1", 0)
        case "registered":
            recovery.registered(NodeName("late"), "late:1")
        case _:
            recovery.maps_came(NodeName("late"), {})
    assert recovery.peers.keys() >= {"n0", "late"}
    assert len(recovery.peers) == PEERS_MAX


def test_what_a_peer_says_itself_counts_more_than_the_registry() -> None:
    recovery = machine("a")
    recovery.registered(NodeName("a"), "old:1")
    recovery.registered(NodeName("b"), "b:1")
    assert (recovery.peers[NodeName("a")].addr, recovery.peers[NodeName("b")].addr) == ("a:1", "b:1")


def test_message_without_an_address_keeps_the_one_known() -> None:
    recovery = machine("a")
    recovery.saw(NodeName("a"), "", 5)
    recovery.members_seen({NodeName("a"): ""})
    assert recovery.peers[NodeName("a")].addr == "a:1"


@pytest.mark.parametrize(("now_ms", "alive"), [(3 * CLOCK_MS, True), (3 * CLOCK_MS + 1, False)])
def test_peer_is_alive_for_three_clocks_after_its_last_word(now_ms: int, alive: bool) -> None:
    assert machine("a").is_alive(NodeName("a"), now_ms) is alive


def test_member_is_alive_until_the_transport_says_otherwise() -> None:
    recovery = machine()
    recovery.members_seen({NodeName("a"): "a:1"})
    before = recovery.is_alive(NodeName("a"), 1_000_000)
    recovery.members_seen({})
    assert (before, recovery.is_alive(NodeName("a"), 1_000_000)) == (True, False)


def test_unknown_node_is_not_alive() -> None:
    assert not machine().is_alive(NodeName("a"), 0)


# -- lost


def _answered(recovery: Recovery, name: str, lacks: TickRanges) -> None:
    recovery.pull_started()
    recovery.pull_ended(NodeName(name), lacks, 0, brought=False, is_whole=True)


def test_what_every_live_node_lacks_is_lost() -> None:
    recovery = machine("a", "b")
    _answered(recovery, "a", ranges(x=[1, 2]))
    _answered(recovery, "b", ranges(x=[2, 3]))
    assert recovery.lost(ranges(x=[1, 2, 3]), [NodeName("a"), NodeName("b")], 0) == ranges(x=[2])


def test_what_a_live_node_was_not_asked_for_is_not_lost() -> None:
    recovery = machine("a", "b")
    _answered(recovery, "a", ranges(x=[1]))
    assert recovery.lost(ranges(x=[1]), [NodeName("a"), NodeName("b")], 0) == {}


def test_dead_node_is_not_waited_for() -> None:
    recovery = machine("a")
    recovery.registered(NodeName("dead"), "dead:1")
    _answered(recovery, "a", ranges(x=[1]))
    assert recovery.lost(ranges(x=[1]), [NodeName("a"), NodeName("dead")], 0) == ranges(x=[1])


def test_what_a_peer_got_since_is_not_lost() -> None:
    recovery = machine("a")
    _answered(recovery, "a", ranges(x=[1, 2], y=[1]))
    recovery.maps_came(NodeName("a"), ranges(x=[1]))
    assert recovery.lost(ranges(x=[1, 2], y=[1]), [NodeName("a")], 0) == ranges(x=[2], y=[1])


def test_answers_of_several_pulls_add_up() -> None:
    recovery = machine("a")
    _answered(recovery, "a", ranges(x=[1]))
    _answered(recovery, "a", ranges(x=[2]))
    assert recovery.lost(ranges(x=[1, 2]), [NodeName("a")], 0) == ranges(x=[1, 2])


# -- members whose server is dead


def _silent_member() -> Recovery:
    recovery = machine()
    recovery.members_seen({NodeName("a"): "a:1"})
    recovery.unreachable(NodeName("a"), 0)
    return recovery


def test_member_that_cannot_be_reached_is_not_alive() -> None:
    assert not _silent_member().is_alive(NodeName("a"), 100_000)


def test_member_that_cannot_be_reached_is_alive_when_it_speaks() -> None:
    recovery = _silent_member()
    recovery.saw(NodeName("a"), "a:1", 100_000)
    assert recovery.is_alive(NodeName("a"), 200_000)


@pytest.mark.parametrize("by", ["maps", "pull"])
def test_member_that_answers_again_is_alive(by: str) -> None:
    recovery = _silent_member()
    if by == "maps":
        recovery.maps_came(NodeName("a"), {})
    else:
        recovery.pull_ended(NodeName("a"), {}, 0, brought=False, is_whole=True)
    assert recovery.is_alive(NodeName("a"), 100_000)


def test_node_heard_of_but_unreachable_for_requests_is_alive_while_it_speaks() -> None:
    recovery = machine("a")
    recovery.unreachable(NodeName("a"), 1000)
    assert recovery.is_alive(NodeName("a"), 3 * CLOCK_MS)


def test_failure_of_one_unheard_of_changes_nothing() -> None:
    recovery = machine("a")
    recovery.unreachable(NodeName("unheard"), 0)
    assert list(recovery.peers) == ["a"]


def test_tag_that_is_told_again_is_no_news() -> None:
    recovery = machine("a")
    recovery.members_seen({NodeName("a"): "old:1"})
    recovery.saw(NodeName("a"), "new:1", 5)
    recovery.members_seen({NodeName("a"): "old:1", NodeName("b"): "b:1"})
    assert recovery.peers[NodeName("a")].addr == "new:1"
    recovery.members_seen({NodeName("a"): "newer:1"})
    assert recovery.peers[NodeName("a")].addr == "newer:1"


def test_entry_that_changes_says_that_the_node_has_moved() -> None:
    recovery = machine("a")
    recovery.registered(NodeName("a"), "entry:1")
    recovery.registered(NodeName("a"), "entry:1")
    assert recovery.peers[NodeName("a")].addr == "a:1"
    recovery.registered(NodeName("a"), "moved:1")
    assert recovery.peers[NodeName("a")].addr == "moved:1"
