"""A burst of frames of one service beside a child that takes little (docs/protocol, TREE-11).

Knows: sites that are nothing but their machines in the tree, in virtual time.  Does not know real sockets.
"""

from __future__ import annotations

from typing import Final

from distkv.core.edges import FramesGiven
from tests.property.server_trees import ANNOUNCE_MS, Site, grow_fleet

BURST: Final = 100_000
STEP_MS: Final = 10
AT_ONCE: Final = 200
"""So many frames of the burst are given in each step."""
OPEN_STEPS, STALLED_STEPS = 4, 9
"""The slow child takes what is said to it in so many steps, and then nothing in so many."""
DELAY_MS: Final = 100
SLOW_MS: Final = 300
"""The slow child gets everything so late at the most: it takes nothing for 90 ms, and is tried again each 100 ms."""


def test_burst_delays_no_other_service_loses_no_announcement_and_moves_no_parent() -> None:
    fleet = grow_fleet(4, 1, is_large=True)
    fleet.becomes_one_tree()
    fleet.run(3 * ANNOUNCE_MS)
    root = fleet.forest.sites[fleet.forest.roots()[0]]
    children = [site for site in fleet.forest.running() if site is not root]
    slow, *others = children
    assert {site.tree.parent for site in children} == {root.node}
    said_ms, late_ms = dict[bytes, int](), {site.node: list[int]() for site in children}
    looked = {site.node: len(site.heard) for site in children}

    def look() -> None:
        for site in children:
            news, looked[site.node] = site.heard[looked[site.node] :], len(site.heard)
            calm = [frame.body for frame in news if frame.service == "calm"]
            late_ms[site.node] += [fleet.agenda.now_ms - said_ms[body] for body in calm]
            assert site.tree.announced.keys() == fleet.forest.sites.keys(), "nobody is missed"

    for number in range(BURST // AT_ONCE):
        slow.edges.is_stalled = number % (OPEN_STEPS + STALLED_STEPS) >= OPEN_STEPS
        give(root, "burst", AT_ONCE)
        if number % 10 == 0:
            said_ms[b"%d" % number] = fleet.agenda.now_ms
            give(root, "calm", 1, number)
        fleet.run(STEP_MS, STEP_MS)
        look()
    slow.edges.is_stalled = False
    for _ in range(2 * ANNOUNCE_MS // STEP_MS):
        fleet.run(STEP_MS, STEP_MS)
        look()
    assert max(late for site in others for late in late_ms[site.node]) < DELAY_MS
    assert max(late_ms[slow.node]) < SLOW_MS
    assert all(len(late) == len(said_ms) for late in late_ms.values()), "all of the other service was heard"
    for site in children:
        burst = sum(frame.service == "burst" for frame in site.heard)
        assert (burst < BURST // 2) == (site is slow), "it lost most of the burst, and the others little"
        counts = site.tree.statistics()
        assert counts["frames_missed"] == BURST - burst, "of all else, announcements included, nothing is lost"
        assert counts["parents_lost"] == 0
    assert root.tree.statistics()["edge_overrun"] == 0


def give(site: Site, service: str, count: int, first: int = 0) -> None:
    """Have a service say something so often."""
    bodies = [b"%d" % (first + number) for number in range(count)]
    site.do(lambda turn: site.tree.step(turn, FramesGiven(service, bodies)))
