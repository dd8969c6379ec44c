"""Fleets of bare machines: who is found, who is missed, who comes back.

Knows: what each node of a small fleet sees after something happened.  Does not know how it came about.
"""

from __future__ import annotations

import pytest

from distkv.swim.inputs import Joined, LeaveGroup, MessageHeard, MessagesMissed, Noticed, Refused, SayMessage
from distkv.wire.swim_records import Address, MemberState
from tests.swim_net import check, fleet, is_whole, place, said, seen_as, told_dead


@pytest.mark.parametrize("is_sealed", [True, False])
def test_nodes_that_know_one_find_all(is_sealed: bool) -> None:
    """docs/protocol, SWIM-1."""
    net = fleet(12, is_sealed=is_sealed)
    check(net)
    assert all(said(node, Joined) for node in net.running())


@pytest.mark.parametrize("is_sealed", [True, False])
def test_dead_node_is_known_everywhere(is_sealed: bool) -> None:
    """docs/protocol, SWIM-16, SWIM-22."""
    net = fleet(12, is_sealed=is_sealed)
    net.kill("n3")
    assert net.run_until(lambda: is_whole(net), 8_000) is not None
    check(net)
    assert told_dead(net) == 0


def test_three_dead_of_twelve_are_known_within_eight_seconds() -> None:
    net = fleet(12)
    for label in ("n3", "n7", "n9"):
        net.kill(label)
    assert net.run_until(lambda: is_whole(net), 8_000) is not None
    assert told_dead(net) == 0


def test_dead_node_of_fifty_is_known_within_ten_seconds() -> None:
    net = fleet(50, loss=0.01)
    net.kill("n30")
    assert net.run_until(lambda: is_whole(net), 10_000) is not None
    assert told_dead(net) == 0


def test_nobody_is_told_dead_though_datagrams_are_lost() -> None:
    net = fleet(12, seed=2, loss=0.05)
    net.run(600_000)
    assert is_whole(net)
    assert told_dead(net) == 0
    check(net)


def test_two_of_two_notice() -> None:
    net = fleet(2)
    net.kill("n0")
    assert net.run_until(lambda: is_whole(net), 8_000) is not None


@pytest.mark.parametrize("frozen_ms", [1_000, 3_000, 10_000, 30_000])
def test_frozen_node_tells_no_other_dead(frozen_ms: int) -> None:
    """docs/protocol, SWIM-33."""
    net = fleet(12)
    net.freeze("n5")
    net.run(frozen_ms)
    net.thaw("n5")
    assert net.run_until(lambda: is_whole(net), 10_000) is not None
    net.run(30_000)
    assert is_whole(net)
    others = [name for name in net.nodes if name != "n5"]
    assert [name for name in others if seen_as(net, name, MemberState.DEAD)] == []


def test_half_the_fleet_frozen_tells_nobody_of_the_others_dead() -> None:
    net = fleet(12)
    frozen = [f"n{number}" for number in range(6)]
    for label in frozen:
        net.freeze(label)
    net.run(20_000)
    for label in frozen:
        net.thaw(label)
    assert net.run_until(lambda: is_whole(net), 15_000) is not None
    assert [name for name in net.nodes if name not in frozen and seen_as(net, name, MemberState.DEAD)] == []


def test_cut_fleet_is_whole_soon_after_the_heal() -> None:
    """docs/protocol, SWIM-39."""
    net = fleet(12)
    left = {place(number) for number in range(6)}
    net.passes = lambda origin, to: (origin in left) is (to in left)
    net.run(60_000)
    assert net.nodes["n0"].live() == {f"n{number}" for number in range(6)}
    net.passes = None
    assert net.run_until(lambda: is_whole(net), 15_000) is not None
    check(net)


def test_node_that_was_alone_for_two_days_finds_back() -> None:
    """docs/protocol, SWIM-38, SWIM-39."""
    net = fleet(3, interval_ms=30_000)
    alone = place(2)
    net.passes = lambda origin, to: alone not in (origin, to)
    net.run_until(lambda: False, 48 * 3_600_000, each_ms=3_600_000)
    assert net.nodes["n2"].live() == {"n2"}
    assert net.nodes["n0"].sees("n2") is None
    net.passes = None
    assert net.run_until(lambda: is_whole(net), 60_000) is not None


def test_halves_that_formed_separately_become_one() -> None:
    net = fleet(3)
    for number in (3, 4, 5):
        net.add(f"n{number}", place(number), [place(3)])
    net.run(10_000)
    assert net.nodes["n0"].live() == {"n0", "n1", "n2"}
    net.add("n6", place(6), [place(0), place(3)])
    assert net.run_until(lambda: is_whole(net), 60_000) is not None


def test_one_way_that_is_cut_makes_nobody_dead() -> None:
    """docs/protocol, SWIM-22."""
    net = fleet(6)
    one, other = place(1), place(2)
    net.passes = lambda origin, to: (origin, to) != (one, other)
    net.run(120_000)
    assert is_whole(net)
    assert told_dead(net) == 0


def test_restarted_node_is_alive_with_a_lower_generation() -> None:
    """docs/protocol, SWIM-31."""
    net = fleet(5)
    before = net.nodes["n2"].machine.own.generation
    net.kill("n2")
    net.run(20_000)
    net.add("n2", place(2), [place(0)], generation=before - 1000)
    assert net.run_until(lambda: is_whole(net), 10_000) is not None
    assert net.nodes["n2"].machine.own.generation > before
    check(net)


@pytest.mark.parametrize("is_sealed", [True, False])
def test_node_that_restarts_at_once_is_alive(is_sealed: bool) -> None:
    """docs/protocol, SWIM-14."""
    net = fleet(5, is_sealed=is_sealed)
    net.kill("n2")
    again = net.add("n2", place(2), [place(0)])
    assert net.run_until(lambda: is_whole(net) and bool(said(again, Joined)), 5_000) is not None
    net.run(20_000)
    assert is_whole(net)
    assert told_dead(net) == 0


def test_node_that_moves_is_alive_at_its_new_place() -> None:
    net = fleet(5)
    net.kill("n2")
    net.add("n2", place(77), [place(0)])

    def is_moved() -> bool:
        members = [one for node in net.running() for one in node.machine.members() if one.node == "n2"]
        return len(members) == 5 and all(one.address == place(77) for one in members)

    assert net.run_until(lambda: is_moved() and is_whole(net), 5_000) is not None


def test_leaving_node_has_left_everywhere() -> None:
    """docs/protocol, SWIM-16."""
    net = fleet(12)
    net.hand(net.nodes["n3"], LeaveGroup())

    def has_left() -> bool:
        others = [node for node in net.running() if node.label != "n3"]
        return all(node.sees("n3") is MemberState.LEFT for node in others)

    assert net.run_until(has_left, 3_000) is not None
    net.run(1_000)
    assert net.nodes["n3"].machine.is_over
    net.kill("n3")
    net.run(20_000)
    assert seen_as(net, "n3", MemberState.DEAD) == []


def test_node_comes_back_after_it_left() -> None:
    net = fleet(5)
    net.hand(net.nodes["n3"], LeaveGroup())
    net.run(3_000)
    net.kill("n3")
    net.add("n3", place(3), [place(0)])
    assert net.run_until(lambda: is_whole(net), 5_000) is not None


def test_second_node_of_a_name_is_refused_with_the_holders_place() -> None:
    """docs/protocol, SWIM-13."""
    net = fleet(4)
    second = net.add("n1", place(9), [place(0)], label="second")
    net.run(5_000)
    refusals = [one for one in said(second, Refused) if isinstance(one, Refused)]
    assert refusals
    assert {one.code for one in refusals} == {"name_taken"}
    assert f"{place(1)[0]}:{place(1)[1]}" in refusals[0].text
    assert is_whole(net, but=["second"])
    assert told_dead(net) == 0


@pytest.mark.parametrize("is_sealed", [True, False])
def test_of_two_of_one_name_that_meet_the_later_one_ends(is_sealed: bool) -> None:
    """docs/protocol, SWIM-15."""
    net = fleet(4, is_sealed=is_sealed)
    for number in (4, 5):
        net.add(f"n{number}", place(number), [place(4)])
    later = net.add("n1", place(6), [place(4)], label="later")
    net.run(5_000)
    net.add("bridge", place(7), [place(0), place(4)])
    assert net.run_until(lambda: later.machine.is_over, 30_000) is not None
    assert [one.code for one in said(later, Refused) if isinstance(one, Refused)] == ["name_taken"]
    net.kill("later")
    assert not net.nodes["n1"].machine.is_over

    def is_settled() -> bool:
        members = [one for node in net.running() for one in node.machine.members() if one.node == "n1"]
        return {one.address for one in members} == {place(1)} and is_whole(net)

    assert net.run_until(is_settled, 30_000) is not None


def test_node_that_is_heard_on_links_only_is_not_dead() -> None:
    """docs/protocol, SWIM-34."""
    net = fleet(6)
    blocked = place(3)
    net.passes = lambda origin, to: blocked not in (origin, to)
    for _ in range(60):
        for node in net.running():
            for other in net.running():
                if other is not node and "n3" in (node.label, other.label):
                    net.hand(node, Noticed(other.label, True))
        net.run(1_000)
    assert is_whole(net)
    assert seen_as(net, "n3", MemberState.DEAD) == []
    assert net.nodes["n0"].machine.statistics()["udp_blocked"] == ["n3"]


def test_node_whose_name_is_known_only_by_links_is_not_told_of_to_others() -> None:
    """docs/protocol, SWIM-34."""
    net = fleet(6)
    net.kill("n3")
    for _ in range(30):
        net.hand(net.nodes["n0"], Noticed("n3", True))
        net.run(1_000)
    assert net.nodes["n1"].sees("n3") is MemberState.DEAD


def test_other_group_is_refused() -> None:
    """docs/protocol, SWIM-11."""
    net = fleet(3)
    stranger = net.add("n9", place(9), [place(0)], group="others")
    net.run(3_000)
    assert {one.code for one in said(stranger, Refused) if isinstance(one, Refused)} == {"group"}
    assert is_whole(net, but=["n9"])
    assert net.nodes["n0"].machine.counts.dropped["group"] > 0


@pytest.mark.parametrize("number", [12, 24])
def test_message_is_heard_once_by_all(number: int) -> None:
    """docs/protocol, SWIM-41, SWIM-42."""
    net = fleet(number)
    net.hand(net.nodes["n1"], SayMessage(7, b"lamp on"))
    others = [node for node in net.running() if node.label != "n1"]
    assert net.run_until(lambda: all(said(node, MessageHeard) for node in others), 2_000) is not None
    net.run(5_000)
    assert all(said(node, MessageHeard) == [MessageHeard("n1", 7, b"lamp on")] for node in others)
    check(net)


def test_missed_message_is_noticed() -> None:
    """docs/protocol, SWIM-41."""
    net = fleet(3)
    deaf = place(2)
    net.hand(net.nodes["n1"], SayMessage(7, b"first"))
    net.run(100)
    net.passes = lambda _, to: to != deaf
    net.hand(net.nodes["n1"], SayMessage(7, b"second"))
    net.run(50)
    net.passes = None
    net.hand(net.nodes["n1"], SayMessage(7, b"third"))
    net.run(5_000)
    assert said(net.nodes["n2"], MessagesMissed) == [MessagesMissed()]


def test_no_datagram_goes_where_no_member_is() -> None:
    """docs/protocol, SWIM-23."""
    net = fleet(12, loss=0.05)
    net.kill("n3")
    places = {place(number) for number in range(12)}
    strays = list[Address]()

    def note(_: Address, to: Address, __: bytes) -> None:
        if to not in places:
            strays.append(to)

    net.sent = note
    net.run(60_000)
    assert strays == []


def test_the_same_seed_gives_the_same_run() -> None:
    ends = []
    for _ in range(2):
        net = fleet(8, seed=5, loss=0.1)
        net.kill("n3")
        net.run(30_000)
        ends.append([(node.machine.counts, node.reports) for node in net.running()])
    assert str(ends[0]) == str(ends[1])


def test_node_whose_datagrams_come_from_elsewhere_lives_and_is_shown() -> None:
    """docs/protocol, SWIM-23."""
    net = fleet(6)
    net.maps[place(3)] = ("10.9.0.1", 4_000)
    net.run(120_000)
    assert is_whole(net)
    assert told_dead(net) == 0
    assert seen_as(net, "n3", MemberState.SUSPECT) == []
    shown = {label: node.machine.statistics()["mapped"] for label, node in net.nodes.items()}
    assert shown == {label: [] if label == "n3" else ["n3"] for label in net.nodes}


def test_node_whose_datagrams_come_again_from_where_it_is_is_shown_no_more() -> None:
    net = fleet(6)
    net.maps[place(3)] = ("10.9.0.1", 4_000)
    net.run(20_000)
    net.maps.clear()
    net.run(20_000)
    assert [node.machine.statistics()["mapped"] for node in net.running()] == [[]] * 6


def test_mapped_node_that_is_gone_is_shown_no_more() -> None:
    net = fleet(6)
    net.maps[place(3)] = ("10.9.0.1", 4_000)
    net.run(20_000)
    net.kill("n3")
    assert net.run_until(lambda: is_whole(net), 8_000) is not None
    assert [node.machine.statistics()["mapped"] for node in net.running()] == [[]] * 5


@pytest.mark.parametrize("is_sealed", [True, False])
def test_nodes_whose_pings_are_relayed_are_not_shown_as_mapped(is_sealed: bool) -> None:
    net = fleet(6, is_sealed=is_sealed)
    net.passes = lambda origin, to: {origin, to} != {place(1), place(3)}
    net.run(60_000)
    assert is_whole(net)
    assert [node.machine.statistics()["mapped"] for node in net.running()] == [[]] * 6
