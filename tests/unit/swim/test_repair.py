"""Tables that differ become equal, also when no rumour is left.

Knows: two machines that believe different things.  Does not know how they came to that.
"""

from __future__ import annotations

from distkv.wire.swim_records import Address, MemberState
from tests.swim_net import check, fleet, is_whole, place


def test_node_that_missed_a_death_notices() -> None:
    """docs/protocol, SWIM-36."""
    net = fleet(6)
    deaf = place(5)
    net.kill("n2")
    net.run_until(lambda: net.nodes["n0"].sees("n2") is MemberState.DEAD, 20_000)
    net.passes = lambda _, to: to != deaf
    net.run(100)
    net.passes = None
    assert net.run_until(lambda: is_whole(net), 20_000) is not None
    check(net)


def test_node_that_missed_many_joins_reads_the_pages() -> None:
    """docs/protocol, SWIM-36."""
    net = fleet(4)
    deaf = place(3)
    net.passes = lambda origin, to: deaf not in (origin, to)
    for number in range(4, 60):
        net.add(f"n{number}", place(number), [place(number % 3)])
        net.run(40)
    assert net.run_until(lambda: is_whole(net, but=["n3"]), 30_000) is not None
    net.run(5_000)
    net.passes = None
    assert net.run_until(lambda: is_whole(net), 30_000) is not None
    check(net)


def test_what_one_node_alone_knows_comes_to_all() -> None:
    """docs/protocol, SWIM-36."""
    net = fleet(6)
    new, sponsor = place(6), place(1)
    is_mute = True

    def passes(origin: Address, to: Address) -> bool:
        if new in (origin, to):
            return sponsor in (origin, to)
        return not (is_mute and origin == sponsor)

    net.passes = passes
    net.add("n6", new, [sponsor])
    net.run(2_000)
    assert net.nodes["n0"].sees("n6") is None
    is_mute = False
    assert net.run_until(lambda: all(node.sees("n6") is not None for node in net.running()), 10_000) is not None
