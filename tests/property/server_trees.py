"""Server trees of whole fleets: `python -m tests.property.server_trees --count 1000` says how they repair themselves.

Knows: what must be true of the trees at each moment, which faults there are, and how a fleet is looked at.  Does not
know how a node chooses its parent.

Invariant: the same seed gives the same run; whatever happens there is no circle.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from random import Random

import attrs

from distkv.core.edges import FramesGiven, FramesGone, TreeInput, TreeTurn
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.parents import DEPTH_MAX, TreePeer
from distkv.core.server_tree.phase import TreePhase
from distkv.core.server_tree.settings import TreeSettings
from distkv.engine.executor import carry_out_edges
from distkv.model.event import NodeName
from distkv.sim.agenda import Agenda
from distkv.sim.network import Network, NetworkFaults
from distkv.sim.rules.trees import circle_of
from distkv.sim.tree_edges import VirtualEdges
from distkv.wire.edges import TreeFrame

ANNOUNCE_MS = 5000
STEP_MS = 50
"""So often the trees are looked at."""
WITHIN_MS = 60_000
COUNTS = (10, 400)
"""The smallest and the largest fleet that a seed draws."""


SEEN_MS = 15_000
"""A node that ended seems alive for so long."""


class Site:
    """A node that is nothing but its machine in the tree, and its edges."""

    def __init__(self, forest: Forest, name: NodeName) -> None:
        self.node, self.forest, self.life = name, forest, 1
        self.is_running, self.ended_ms = True, 0
        self.heard, self.gone = list[TreeFrame](), list[FramesGone]()
        settings = TreeSettings(name, f"{name}:1", forest.fanout, ANNOUNCE_MS)
        self.tree = ServerTree(settings, Random(forest.rng.random()), self)
        self.edges = VirtualEdges(self, forest, is_plain=forest.is_large)
        self._held = list[TreeInput]()
        self._wake_ms: int | None = None

    # -- what its edges see

    @property
    def host_name(self) -> str:
        return self.node

    @property
    def is_paused(self) -> bool:
        return self.node in self.forest.paused

    def give(self, what: TreeInput) -> None:
        if self.is_paused:
            self._held.append(what)
        else:
            self.do(lambda turn: self.tree.step(turn, what))

    # -- what its machine looks up

    def is_registered(self, name: NodeName, life: int | None = None) -> bool:  # noqa: ARG002
        return name in self.forest.sites

    def peers(self, now_ms: int) -> dict[NodeName, TreePeer]:
        return self.forest.peers(self.node, now_ms)

    # -- its turns

    def do(self, step: Callable[[TreeTurn], object]) -> None:
        turn = TreeTurn(self.forest.agenda.now_ms)
        step(turn)
        self.tree.check()
        self.heard += [what for what in turn.heard if isinstance(what, TreeFrame)]
        self.gone += [what for what in turn.heard if isinstance(what, FramesGone)]
        carry_out_edges(turn.effects, self.edges)
        wake_ms = self.tree.wake_ms()
        if wake_ms is not None and wake_ms != self._wake_ms:
            self._wake_ms = wake_ms
            self.forest.agenda.at(wake_ms, lambda: self._wake(wake_ms))

    def go_on(self) -> None:
        held, self._held = self._held, []
        for what in held:
            self.give(what)
        self._wake_ms = None
        self.do(lambda turn: self.tree.step(turn, None))

    def _wake(self, at_ms: int) -> None:
        if self._wake_ms == at_ms and self.is_running and not self.is_paused:
            self._wake_ms = None
            self.do(lambda turn: self.tree.step(turn, None))


@attrs.define(eq=False)
class Forest:
    """All of them, and what is between them."""

    network: Network
    rng: Random
    fanout: int
    is_large: bool
    agenda: Agenda = attrs.field(factory=Agenda)
    notes: Counter[str] = attrs.field(factory=Counter)
    paused: set[NodeName] = attrs.field(factory=set)
    sites: dict[NodeName, Site] = attrs.field(factory=dict)
    starts: int = 0
    _alive: dict[NodeName, TreePeer] = attrs.field(factory=dict)
    """All that seem alive, as they are to who reaches all of them."""
    _alive_ms: int = -1000

    def edges_at(self, addr: str) -> VirtualEdges | None:
        site = self.sites.get(NodeName(addr.partition(":")[0]))
        return site.edges if site is not None and site.is_running else None

    def peers(self, name: NodeName, now_ms: int) -> dict[NodeName, TreePeer]:
        """Everybody who was there lately; some have just gone, which shows on the connection to them only."""
        if now_ms - self._alive_ms >= 1000:
            self._alive_ms = now_ms
            self._alive = {
                other.node: TreePeer(f"{other.node}:1", 1.0 if other.is_running else None)
                for other in self.sites.values()
                if other.is_running or now_ms - other.ended_ms < SEEN_MS
            }
        found = self._alive.copy()
        found.pop(name, None)
        if self.network.cut:
            for other, peer in found.items():
                if peer.rtt_ms is not None and not self.network.connects(name, other):
                    found[other] = attrs.evolve(peer, rtt_ms=None)
        return found

    def start(self, name: NodeName) -> None:
        self.starts += 1
        site = self.sites[name] = Site(self, name)
        start = self.starts
        site.do(lambda turn: site.tree.begin(turn, start))

    def stop(self, name: NodeName) -> None:
        site = self.sites[name]
        site.is_running, site.ended_ms = False, self.agenda.now_ms
        site.edges.stop()

    def go_on(self) -> None:
        """Nobody stands still any more."""
        paused = sorted(self.paused)
        self.paused.clear()
        for site in [self.sites[name] for name in paused]:
            if site.is_running:
                site.go_on()

    def say(self, name: NodeName, text: str) -> None:
        self.sites[name].give(FramesGiven("say", [text.encode()]))

    def running(self) -> list[Site]:
        return [site for site in self.sites.values() if site.is_running]

    def roots(self) -> list[NodeName]:
        return [site.node for site in self.running() if site.tree.phase is TreePhase.ROOT]

    @property
    def items(self) -> int:
        """How many were said on edges."""
        return sum(site.edges.said for site in self.sites.values())


@attrs.define
class Fleet:
    """Some nodes, and what has been seen of their trees."""

    forest: Forest

    @property
    def network(self) -> Network:
        return self.forest.network

    @property
    def agenda(self) -> Agenda:
        return self.forest.agenda

    @property
    def paused(self) -> set[NodeName]:
        return self.forest.paused

    @property
    def names(self) -> list[NodeName]:
        return [site.node for site in self.forest.running()]

    def run(self, for_ms: int, step_ms: int = STEP_MS) -> None:
        """Let time pass, and look at the trees."""
        for _ in range(0, for_ms, step_ms):
            self.agenda.run(step_ms)
            self.check()

    def check(self) -> None:
        """No circle of edges that both ends have, and no level that is too high. A node that stood still may believe
        for a while in a parent that is gone."""
        assert not (circle := circle_of({site.node: site.tree for site in self.forest.running()})), circle
        assert all(len(site.tree.path) <= DEPTH_MAX + 1 for site in self.forest.running())

    def is_one_tree(self) -> bool:
        roots = {site.tree.path[-1] if site.tree.path else None for site in self.forest.running()}
        return len(roots) == 1 and None not in roots and not self.paused

    def becomes_one_tree(self, within_ms: int = WITHIN_MS, step_ms: int = STEP_MS) -> int:
        """How long it took."""
        began_ms = self.agenda.now_ms
        self.run(step_ms, step_ms)  # what happened just now is not noticed yet
        while not self.is_one_tree():
            self.run(step_ms, step_ms)
            paths = {site.node: site.tree.path for site in self.forest.running()}
            assert self.agenda.now_ms - began_ms <= within_ms, paths
        return self.agenda.now_ms - began_ms


def grow_fleet(count: int, seed: int, *, fanout: int = 16, is_large: bool = False) -> Fleet:
    """All start at once."""
    forest = Forest(Network(seed, NetworkFaults(), is_large=True), Random(f"forest {seed}"), fanout, is_large)
    for number in range(count):
        forest.start(NodeName(f"n{number:04}"))
    return Fleet(forest)


def disturb(fleet: Fleet, rng: Random, stopped: set[NodeName]) -> None:
    """One fault, or its end."""
    forest, names = fleet.forest, fleet.names
    match rng.choice(("stop", "stop", "start", "pause", "resume", "split", "one-way", "heal", "say", "say")):
        case "stop" if len(names) > 1:
            name = rng.choice(names)
            stopped.add(name)
            fleet.paused.discard(name)
            forest.stop(name)
        case "start" if stopped:
            name = rng.choice(sorted(stopped))
            stopped.discard(name)
            forest.start(name)
        case "pause":
            fleet.paused.add(rng.choice(names))
        case "resume":
            forest.go_on()
        case "split":
            side = rng.sample(names, len(names) // 2)
            fleet.network.partition([side, [name for name in names if name not in side]], names)
        case "one-way":
            fleet.network.cut |= {(rng.choice(names), rng.choice(names)) for _ in range(3)}
        case "heal":
            fleet.network.cut = set()
        case "say":
            forest.say(rng.choice(names), "meanwhile")
        case _:
            pass


def end_faults(fleet: Fleet, stopped: Iterable[NodeName]) -> None:
    fleet.network.cut = set()
    fleet.forest.go_on()
    for name in stopped:
        fleet.forest.start(name)


def check_frames(sites: Iterable[Site], last: str) -> None:
    """Each node heard each other node's last word, and nothing twice or out of order."""
    sites = list(sites)
    for site in sites:
        numbers = defaultdict[NodeName, list[tuple[int, int]]](list)
        for frame in site.heard:
            numbers[frame.origin].append((frame.start, frame.number))
        for origin, found in numbers.items():
            assert found == sorted(set(found)), f"{site.node} heard {origin} twice, or out of order"
        heard = {frame.origin for frame in site.heard if frame.body.decode() == last}
        assert heard == {other.node for other in sites} - {site.node}


def play(count: int, seed: int) -> None:
    """Grow a fleet, kill the root, then all inner nodes, then half of all, and tell what became of the tree."""
    fleet = grow_fleet(count, seed, is_large=True)

    def tell(what: str) -> None:
        items = fleet.forest.items
        took_ms = fleet.becomes_one_tree(step_ms=250)
        fleet.run(1000, 250)
        sites = fleet.forest.running()
        levels, children = [len(site.tree.path) - 1 for site in sites], [len(site.tree.children) for site in sites]
        said = (fleet.forest.items - items) / len(sites)
        _say(
            f"{what}: one tree of {len(sites)} after {took_ms / 1000:.1f} s, {max(levels)} levels,"
            f" at most {max(children)} children, {said:.0f} items for each node"
        )

    tell("start")
    fleet.forest.stop(fleet.forest.roots()[0])
    tell("the root is killed")
    for site in [site for site in fleet.forest.running() if site.tree.children]:
        fleet.forest.stop(site.node)
    tell("all inner nodes are killed")
    for name in Random(seed).sample(fleet.names, len(fleet.names) // 2):
        fleet.forest.stop(name)
    tell("half of all are killed")


def main() -> int:
    """Play fleets, each with the next seed; 1 when one failed."""
    parser = argparse.ArgumentParser(description=f"{play.__doc__} {main.__doc__}")
    parser.add_argument("--count", type=int, help="how many nodes; else the seed says it, up to 400")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--fleets", type=int, default=1, help="how many")
    arguments = parser.parse_args()
    has_failed = False
    for seed in range(arguments.seed, arguments.seed + arguments.fleets):
        count = arguments.count or Random(seed).randint(*COUNTS)
        try:
            play(count, seed)
        except AssertionError as error:
            has_failed = True
            _say(f"seed {seed} failed with {count} nodes: {error}"[:300].replace("\n", " / "))
            _say(f"  again: python -m tests.property.server_trees --count {count} --seed {seed}")
    return int(has_failed)


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
