"""New nodes that find each other before they find the network, and two networks that meet.

Knows: the last paragraphs of the source's 'Event recovery', START-11, NET-2.
"""

from __future__ import annotations

import pytest

from distkv.core.client_writes import LocalSet
from distkv.errors import NotReadyError
from distkv.model.path import Path
from distkv.model.state import State
from distkv.wire.message import Ping, Update
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value
from tests.fleet import Fleet, grown

CLOCK_MS = 5000


def _club(*, members_seen: bool = True) -> Fleet:
    """A network of a and b, and three new nodes that hear each other only, for twenty clocks."""
    fleet = grown("a", "b", members_seen=members_seen)
    fleet.set("a", "x", 1)
    fleet.run(1000)
    for name in ("n1", "n2", "n3"):
        fleet.host(name)
    fleet.partition(["a", "b"], ["n1", "n2", "n3"])
    for name in ("n1", "n2", "n3"):
        fleet.start(name)
    fleet.run(20 * CLOCK_MS)
    return fleet


def test_club_of_new_nodes_stays_passive() -> None:
    fleet = _club()
    assert [fleet[name].state for name in ("n1", "n2", "n3")] == [State.PASSIVE] * 3


def test_club_of_new_nodes_makes_no_chain() -> None:
    fleet = _club()
    chains = [m.chain for _, name, m in fleet.sent if name.startswith("n") and isinstance(m, Ping)]
    assert chains
    assert {len(chain) for chain in chains} == {1}


def test_club_of_new_nodes_takes_no_writes() -> None:
    fleet = _club()
    reply = fleet.step("n1", LocalSet(SetValue(1, Path(["x"]), pack_value(2)))).reply
    assert isinstance(reply, NotReadyError)


@pytest.mark.parametrize("members_seen", [True, False])
def test_club_that_meets_the_network_downloads_it(members_seen: bool) -> None:
    fleet = _club(members_seen=members_seen)
    healed_ms = fleet.now_ms
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert all(fleet[name].tree.get(Path(["x"])) is not None for name in ("n1", "n2", "n3"))
    retold = [m for at, name, m in fleet.sent if at >= healed_ms and name.startswith("n") and isinstance(m, Update)]
    assert all(event.path.is_reserved for update in retold for event in update.events)


def _two_networks() -> Fleet:
    """Two founders that could not hear each other, each with a node of its own; then all can."""
    fleet = Fleet()
    for name in ("a", "b", "x", "y"):
        fleet.host(name)
    fleet.partition(["a", "b"], ["x", "y"])
    fleet.start("a", init="one")
    fleet.start("x", init="two")
    fleet.run(CLOCK_MS + 100)
    fleet.start("b")
    fleet.start("y")
    assert fleet.run_until(fleet.all_ready, 4 * CLOCK_MS)
    fleet.set("a", "of", "one")
    fleet.set("x", "of", "two")
    fleet.run(1000)
    fleet.heal()
    fleet.run(20 * CLOCK_MS)
    return fleet


def test_networks_that_meet_do_not_merge() -> None:
    fleet = _two_networks()
    digests = [fleet[name].tree.digest for name in ("a", "b", "x", "y")]
    assert digests[0] == digests[1] != digests[2] == digests[3]
    assert sorted(fleet["a"].registry.nodes) == ["a", "b"]


def test_networks_that_meet_say_so() -> None:
    assert _two_networks().notes["foreign_network"] > 0


def test_networks_that_meet_keep_their_own_chains() -> None:
    fleet = _two_networks()
    late = fleet.pings(since_ms=fleet.now_ms - 10 * CLOCK_MS)
    sides = {frozenset(link.node for link in ping.chain) <= {"a", "b"} for _, name, ping in late if name in "ab"}
    assert sides == {True}
