"""Hundreds of nodes that follow each other, by their machines alone, in a soak a thousand: no circle, few steps, few
connections, no storm.

Knows: `distkv.core.following`, for all nodes of a network at once.  Does not know what comes by links.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from distkv.core.following import CALM_MS, CHECK_MS, RETRY_MAX_MS, Following
from distkv.model.event import NodeName
from tests.profiles import size
from tests.property.follows import answer

COUNT = size(400, 1000)
MOST = size(31, 33)
"""So many others a node of so many follows."""
NAMES = [NodeName(f"n{number:04}") for number in range(COUNT)]
PLACES = {name: number for number, name in enumerate(NAMES)}
LOOKED_AT = NAMES[:: COUNT // 20]
"""The writers whose trees are looked at as a whole."""


def _all(_: NodeName, __: NodeName) -> bool:
    return True


class _Network:
    """A machine for each of some of all nodes; what one does depends on no other one."""

    def __init__(self, nodes: Sequence[NodeName], alive: Sequence[NodeName] = NAMES) -> None:
        self.nodes = {me: Following(me, 16, random.Random(me), is_on=True) for me in nodes}
        self.alive = alive
        self.now_ms = 0

    def settle(self, gone: Collection[NodeName] = (), reaches: Callable[[NodeName, NodeName], bool] = _all) -> None:
        """Let each node dial until it wants nothing new at this moment."""
        for me, following in self.nodes.items():
            others = [name for name in self.alive if name != me]
            while changed := following.plan(self.now_ms, others):
                for name, follow in changed.items():
                    if name not in gone and reaches(me, name):
                        answer(following, follow)
                    else:
                        following.ended(follow, "it is silent", self.now_ms)

    def lose(self, gone: set[NodeName]) -> None:
        """These end: whoever follows them notices."""
        for following in self.nodes.values():
            for name in gone & following.parents.keys():
                following.ended(following.parents[name].follow, "the connection broke", self.now_ms)

    def check_order(self) -> None:
        """Whoever is followed stands nearer to the writer in its ring: so nobody follows himself through others."""
        for me, following in self.nodes.items():
            for name, parent in following.parents.items():
                assert all(_back(me, name) <= _back(me, writer) for writer in parent.writers), (me, name)

    def check_all_have(self, writers: Collection[NodeName]) -> None:
        """Each node has each of these by one connection that answers."""
        for me, following in self.nodes.items():
            brought = Counter(
                writer for parent in following.parents.values() if parent.is_up for writer in parent.writers
            )
            assert all(brought[writer] == 1 for writer in writers if writer != me), me

    def depths(self, writer: NodeName) -> Counter[int]:
        """How many nodes are so many steps away from a writer; each has it through one whose steps are known."""
        found, begin = {writer: 0}, PLACES[writer]
        for me in [*NAMES[begin + 1 :], *NAMES[:begin]]:
            if me in self.nodes:
                (above,) = (name for name, parent in self.nodes[me].parents.items() if writer in parent.writers)
                found[me] = 1 + found[above]
        return Counter(found.values())

    def connections(self) -> int:
        """How many others one node follows, or by how many one is followed, at most."""
        pairs = [
            (me, name) for me, one in self.nodes.items() for name, parent in one.parents.items() if parent.writers
        ]
        return max(*Counter(me for me, _ in pairs).values(), *Counter(name for _, name in pairs).values())


def _back(me: NodeName, name: NodeName) -> int:
    """How many places before this node another one stands."""
    return (PLACES[me] - PLACES[name]) % COUNT


def test_hundreds_of_nodes_have_each_writer_in_three_steps_over_few_connections() -> None:
    network = _Network(NAMES)
    network.settle()
    network.check_order()
    for writer in LOOKED_AT:
        depths = network.depths(writer)
        assert depths.total() == COUNT
        assert max(depths) == 3
    assert network.connections() == MOST


def test_half_of_many_dead_each_other_one_has_all_that_live_before_it_is_seen_who_is_dead() -> None:
    gone = set(random.Random(1).sample(NAMES, COUNT // 2))
    left = [name for name in NAMES if name not in gone]
    network = _Network(left[::10])
    network.settle()
    network.lose(gone)
    network.settle(gone)
    network.check_order()
    network.check_all_have(left)


def test_half_of_many_dead_the_others_move_to_three_steps_and_few_connections() -> None:
    gone = set(random.Random(1).sample(NAMES, COUNT // 2))
    left = [name for name in NAMES if name not in gone]
    network = _Network(left)
    network.settle()
    network.lose(gone)
    network.now_ms, network.alive = CHECK_MS, left
    network.settle(gone)
    network.check_all_have(left)
    network.now_ms += 2 * CALM_MS
    network.settle(gone)
    network.check_order()
    for writer in LOOKED_AT:
        if writer not in gone:
            depths = network.depths(writer)
            assert depths.total() == COUNT // 2
            assert max(depths) <= 3
    assert network.connections() <= MOST


def test_nodes_of_many_whose_views_differ_follow_only_who_stands_nearer_to_the_writer() -> None:
    views = random.Random(2)
    for me in NAMES[::20]:
        network = _Network([me], sorted(views.sample(NAMES, COUNT * 9 // 10)))
        network.settle()
        network.check_order()


def test_nodes_of_many_that_cannot_dial_each_third_other_one_follow_only_who_stands_nearer() -> None:
    network = _Network(NAMES[::20])
    network.settle(reaches=lambda me, name: (PLACES[me] * 7 + PLACES[name] * 13) % 3 > 0)
    network.check_order()
    for me, following in network.nodes.items():
        brought = {writer for parent in following.parents.values() if parent.is_up for writer in parent.writers}
        assert len(brought) >= COUNT - 3, me


# -- no storm


def _moments_of_attempts(followers: int, back_ms: int) -> list[int]:
    """When a node that broke at 0 ms is dialled, by so many that all follow it, until it is there again."""
    names = NAMES[: followers + 1]
    lost, moments = names[0], list[int]()
    for me in names[1:]:
        following, others = Following(me, followers, random.Random(me), is_on=True), [n for n in names if n != me]
        for follow in following.plan(0, others).values():
            answer(following, follow)
        following.ended(following.parents[lost].follow, "the connection broke", 0)
        now_ms = following.wake_ms()
        while now_ms is not None and now_ms < back_ms:
            for name, follow in following.plan(now_ms, others).items():
                if name != lost:
                    answer(following, follow)
                elif following.parents[name].writers:
                    moments.append(now_ms)
                    following.ended(follow, "it cannot be reached", now_ms)
            now_ms = following.wake_ms()
    return moments


def test_hundred_followers_of_a_node_that_restarts_dial_it_apart_and_more_and_more_seldom() -> None:
    moments = _moments_of_attempts(100, 40_000)
    seconds = Counter(ms // 1000 for ms in moments)
    assert max(Counter(ms // 10 for ms in moments).values()) <= 20
    assert seconds[0] <= 250
    assert all(seconds[second] <= 30 for second in range(16, 40))


def test_node_of_many_that_hears_one_of_many_dead_ones_dials_the_others_apart_and_not_again_soon() -> None:
    """(docs/protocol, LINK-17)"""
    me, dead = NAMES[0], set(NAMES[1::2])
    others = NAMES[1:]
    following = Following(me, 16, random.Random(3), is_on=True)
    begun_ms = list[int]()

    def pass_time(until_ms: int) -> None:
        while (now_ms := following.wake_ms() or 0) < until_ms:
            for name, follow in following.plan(now_ms, others).items():
                if not following.parents[name].writers:
                    continue
                if name in dead:
                    begun_ms.append(now_ms)
                    following.ended(follow, "it cannot be reached", now_ms)
                else:
                    answer(following, follow)

    pass_time(120_000)
    tried = [name for name, parent in following.parents.items() if parent.failures]
    begun_ms.clear()
    for number, name in enumerate(tried[:5]):  # one after the other is back, and says so
        dead.discard(name)
        following.heard(name, 120_000 + number * 100)
    pass_time(120_000 + RETRY_MAX_MS)
    assert len(tried) >= 8
    assert len(begun_ms) <= len(tried)  # with their back-off forgotten at each word it would be twice as many
    assert max(Counter(begun_ms).values()) <= 2
