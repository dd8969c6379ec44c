"""Names and addresses that are used twice, as gossip tells.

Knows: docs/protocol, 'One name twice'.  The exits themselves are in test_startup_with_data.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.ready import HeardMessage
from distkv.model.event import NodeName, Tock
from distkv.wire.message import Ping, Start
from tests.fleet import Fleet, grown, meet_namesake

CLOCK_MS = 5000


def _fleet_and_ping() -> tuple[Fleet, Ping]:
    """A fleet that pinged, and its latest ping of a as if it came from later."""
    fleet = grown("a", "b")
    fleet.run(4 * CLOCK_MS)
    ping = next(m for _, name, m in reversed(fleet.pings()) if name == "a")
    return fleet, attrs.evolve(ping, header=attrs.evolve(ping.header, tock=Tock(fleet["a"].tock + 1)))


def test_namesake_in_another_network_is_no_other_us() -> None:
    fleet, ping = _fleet_and_ping()
    header = attrs.evolve(ping.header, network=b"elsewhere", start=Start(1.0, 1))
    ready = fleet.step("a", HeardMessage(attrs.evolve(ping, header=header)))
    assert ready.fatal is None
    assert [note.id for note in ready.notes] == ["foreign_network"]


def test_two_nodes_that_advertise_one_address_are_told() -> None:
    fleet, ping = _fleet_and_ping()
    ready = fleet.step("b", HeardMessage(attrs.evolve(ping, addr="b:1")))
    assert "same_address" in [note.id for note in ready.notes]


def test_of_equally_old_namesakes_the_larger_id_ends() -> None:
    fleet, ping = _fleet_and_ping()
    start = ping.header.start
    assert start is not None
    header = attrs.evolve(ping.header, start=Start(start.time, 0))
    assert meet_namesake(fleet, "a", header).fatal is not None


@pytest.mark.parametrize("is_copy", [True, False])
def test_earlier_of_two_namesakes_leaves_the_life_that_both_are_in(is_copy: bool) -> None:
    fleet, ping = _fleet_and_ping()
    life, start = fleet["a"].life, ping.header.start
    assert life is not None
    assert start is not None
    header = attrs.evolve(ping.header, start=Start(start.time + 1, 1), life=life if is_copy else life + 1)
    assert meet_namesake(fleet, "a", header).fatal is None
    assert (fleet["a"].life != life) is is_copy  # a copy of its directory may have used its next ticks


def test_namesake_is_judged_only_once_we_are_ready() -> None:
    fleet, ping = _fleet_and_ping()
    fleet.crash("a")
    fleet.start("a")
    header = attrs.evolve(ping.header, start=Start(1.0, 1), tock=Tock(1 << 40))
    assert fleet.step("a", HeardMessage(attrs.evolve(ping, header=header))).fatal is None


def test_own_message_that_comes_back_is_nothing() -> None:
    fleet, ping = _fleet_and_ping()
    ready = fleet.step("a", HeardMessage(ping))
    assert (ready.notes, ready.records, ready.fatal) == ([], [], None)


def test_sender_not_heard_of_before_is_a_peer_from_then_on() -> None:
    fleet, ping = _fleet_and_ping()
    header = attrs.evolve(ping.header, node=NodeName("stranger"))
    fleet.step("a", HeardMessage(attrs.evolve(ping, header=header, addr="stranger:1")))
    assert fleet["a"].peers(fleet.now_ms)[NodeName("stranger")] == ("stranger:1", True)


def _given_away() -> Fleet:
    """x, whom b does not reach, got the name of b from a; a reaches both."""
    fleet = grown("a", "b", members_seen=False)
    fleet.partition(["a"], ["b"])
    fleet.run(4 * CLOCK_MS)
    fleet.host("x").node = NodeName("b")
    fleet.start("x")
    assert fleet.run_until(lambda: fleet["x"].is_serving, 3 * CLOCK_MS)
    fleet.network.cut = {("b", "x"), ("x", "b")}
    return fleet


def test_name_whose_new_owner_is_gone_is_ours_again() -> None:
    fleet = _given_away()
    fleet.crash("x")
    assert fleet.run_until(lambda: fleet["a"].registry.nodes[NodeName("b")].addr == "b:1", 6 * CLOCK_MS)
    assert fleet["a"].registry.nodes[NodeName("b")].life == fleet["b"].life


def test_name_is_taken_back_once_from_an_owner_who_is_not_reached() -> None:
    fleet = _given_away()
    before = fleet.notes["new_life"]
    fleet.run(12 * CLOCK_MS)
    assert fleet.notes["new_life"] - before == 2  # one by each of them
