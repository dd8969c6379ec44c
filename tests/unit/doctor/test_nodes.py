"""What `distkv doctor` learns from nodes, told by a server that answers as the test says.

Knows: states.  Does not judge them.
"""

from __future__ import annotations

import time

import pytest

from distkv.doctor.facts import LinkFacts, NodeFacts, PeerFacts
from distkv.doctor.nodes import ROUNDS, ask_node, ask_peers
from distkv.wire.replies import encode_reply
from tests.unit.client.scripted_server import HELLO, Step, open_server, reply, silence

STATE: dict[str, object] = {"state": "ready", "network": "00", "members": [], "time": 1.0}


def ask(*script: Step) -> NodeFacts:
    with open_server(*script) as server:
        return ask_node(server.address)


def test_node_is_known_by_its_greeting_and_its_state() -> None:
    members = [{"node": "z", "addr": "h:1", "state": "away"}, {"node": HELLO.node, "addr": "h:2", "state": "alive"}]
    found = ask(*[reply(STATE | {"members": members, "settings": {"ping.clock": 5.0}})] * ROUNDS)
    assert (found.name, found.version) == (HELLO.node, ".".join(map(str, HELLO.version)))
    assert (found.state, found.network, found.settings) == ("ready", "00", {"ping.clock": 5.0})
    assert found.peers == (PeerFacts("z", "h:1", False),), "it is no peer of itself"


def test_links_are_learned() -> None:
    links = [
        {"node": "z", "addr": "h:1", "state": "down", "reason": "no way"},
        {"node": "y", "addr": "h:2", "state": "up"},
    ]
    found = ask(*[reply(STATE | {"links": links})] * ROUNDS)
    assert found.links == (LinkFacts("z", "h:1", False, "no way"), LinkFacts("y", "h:2", True))


def test_clock_is_measured_within_half_the_round_trip() -> None:
    def tell_time(seq: int) -> bytes:
        return encode_reply(seq, STATE | {"time": time.time() + 100})

    clock = ask(*[tell_time] * ROUNDS).clock
    assert clock is not None
    assert abs(clock.ahead_s - 100) <= clock.error_s + 1e-6


def test_node_of_an_older_release_tells_no_time() -> None:
    assert ask(*[reply({"state": "ready", "network": "00", "members": []})] * ROUNDS).clock is None


def test_root_of_gossip_is_a_setting() -> None:
    assert ask(*[reply(STATE | {"transport": {"root": "x"}})] * ROUNDS).settings == {"serf.root": "x"}


def test_changes_that_are_given_up_are_not_missing() -> None:
    ranges: dict[str, object] = {"missing": {"x": [1], "y": [[1, 4]], "z": [7]}, "lost": {"x": [1], "y": [2]}}
    assert ask(*[reply(STATE | ranges)] * ROUNDS).missing == ("y", "z")


def test_what_pings_have_shown_is_learned() -> None:
    found = ask(*[reply(STATE | {"pings": {"partitions": 3, "delivery": [0.1, 0.5]}})] * ROUNDS)
    assert (found.partitions, found.delivery_s) == (3, (0.1, 0.5))


@pytest.mark.parametrize("pings", [{}, {"pings": {"partitions": 1}}], ids=["older release", "none was followed"])
def test_pings_that_have_shown_nothing_are_no_failure(pings: dict[str, object]) -> None:
    found = ask(*[reply(STATE | pings)] * ROUNDS)
    assert (found.failure, found.partitions, found.delivery_s) == ("", 1, None)


@pytest.mark.parametrize("delivery", [1.0, [1.0], [1, 2], [1.0, 2.0, 3.0]])
def test_delivery_that_is_nonsense_is_a_failure(delivery: object) -> None:
    assert "delivery" in ask(*[reply(STATE | {"pings": {"delivery": delivery}})] * ROUNDS).failure


def test_state_that_is_nonsense_is_a_failure() -> None:
    assert "members" in ask(*[reply(STATE | {"members": 1})] * ROUNDS).failure


def test_node_that_closes_is_a_failure() -> None:
    assert "closed the connection" in ask().failure


def test_peers_that_are_away_are_not_asked() -> None:
    with open_server(*[reply(STATE)] * ROUNDS, silence) as server:
        alive, away = (PeerFacts(name, f"127.0.0.1:{server.address[1]}", name == "b") for name in ("b", "c"))
        found = ask_peers(NodeFacts("h:1", peers=(alive, away, PeerFacts("d", "nowhere", True))))
        assert server.connections == 1
    assert [name for name, node in found.items() if not node.failure] == ["b"]
    assert "the address of d is 'nowhere'" in found["d"].failure
