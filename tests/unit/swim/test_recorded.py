"""Everything that was ever sent in a sealed fleet is sent again, to all, under its senders' addresses.

Knows: what somebody on the network can do who has no secret.  Does not know how a seal works (`test_seal`).
"""

from __future__ import annotations

import pytest

from distkv.sim.swim.net import SwimNet
from distkv.swim.inputs import LeaveGroup
from distkv.swim.keyring import Keyring
from distkv.wire.swim_records import Address
from tests.swim_net import check, fleet, is_whole, place, told_dead

RING = Keyring((b"k" * 32,))
Sent = tuple[Address, Address, bytes]


def _with_a_past() -> tuple[SwimNet, list[Sent]]:
    """A fleet of which one node left and came back, and all that was sent in it."""
    sent = list[Sent]()
    net = SwimNet(1, keyring=RING)
    net.sent = lambda *one: sent.append(one)
    for number in range(4):
        net.add(f"n{number}", place(number), [place(0)])
        net.run(60)
    net.run(3_000)
    net.hand(net.nodes["n2"], LeaveGroup())
    net.run(2_000)
    net.kill("n2")
    net.add("n2", place(2), [place(0)])
    net.run(8_000)
    net.sent = None
    assert is_whole(net)
    return net, sent


def test_recorded_datagrams_change_nothing() -> None:
    """docs/protocol, SWIM-46."""
    net, sent = _with_a_past()
    before = [[(one.node, one.generation, one.state) for one in node.machine.members()] for node in net.running()]
    strays = list[Address]()
    net.sent = lambda _, to, __: strays.append(to)
    for origin, to, data in sent:
        for number in range(4):
            net.send(origin, place(number), data)
        net.send(place(9), to, data)
        net.run(1)
    net.run(5_000)
    after = [[(one.node, one.generation, one.state) for one in node.machine.members()] for node in net.running()]
    assert after == before
    assert told_dead(net) == 0
    assert {*strays} <= {place(number) for number in range(4)}
    assert all(node.machine.counts.dropped["replay"] > 100 for node in net.running())
    check(net)


def test_node_with_another_secret_is_in_nobodys_list_and_hears_nothing() -> None:
    """docs/protocol, SWIM-44."""
    net = fleet(3, keyring=RING)
    other = SwimNet(2, keyring=Keyring((b"x" * 32,)))
    stranger = other.add("n9", place(9), [place(0)])
    answers = list[bytes]()
    other.sent = lambda _, to, data: net.send(place(9), to, data)
    net.sent = lambda _, to, data: answers.append(data) if to == place(9) else None
    for _ in range(50):
        other.run(100)
        net.run(100)
    net.sent = None
    assert answers == []
    assert net.nodes["n0"].live() == {"n0", "n1", "n2"}
    assert stranger.live() == {"n9"}
    assert net.nodes["n0"].machine.counts.dropped["seal"] >= 3


@pytest.mark.parametrize("number", [1, 2])
def test_no_two_datagrams_are_equal(number: int) -> None:
    """docs/protocol, SWIM-3, SWIM-45."""
    sent = list[bytes]()
    net = fleet(3, seed=number, keyring=RING)
    net.sent = lambda _, __, data: sent.append(data)
    net.run(20_000)
    assert len({*sent}) == len(sent) > 200
    assert max(map(len, sent)) <= 1232
    assert not any(b"n1" in data and b"n2" in data for data in sent)
