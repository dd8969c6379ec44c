"""Server trees of whole fleets: `python -m tests.property.server_trees --count 1000` says how they repair themselves.

Knows: what must be true of the trees at each moment, which faults there are, and how a fleet is looked at.  Does not
know how a node chooses its parent.

Invariant: the same seed gives the same run; whatever happens there is no circle.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable
from random import Random

import attrs

from distkv.core.server_tree.parents import DEPTH_MAX
from distkv.model.event import NodeName
from distkv.sim.agenda import Agenda
from distkv.sim.forest import Forest, Site
from distkv.sim.network import Network, NetworkFaults

ANNOUNCE_MS = 5000
STEP_MS = 50
"""So often the trees are looked at."""
WITHIN_MS = 60_000
COUNTS = (10, 400)
"""The smallest and the largest fleet that a seed draws."""


@attrs.define
class Fleet:
    """Some nodes, and what has been seen of their trees."""

    forest: Forest
    network: Network
    agenda: Agenda
    paused: set[NodeName] = attrs.field(factory=set)

    @property
    def names(self) -> list[NodeName]:
        return [site.name for site in self.forest.running()]

    def run(self, for_ms: int, step_ms: int = STEP_MS) -> None:
        """Let time pass, and look at the trees."""
        for _ in range(0, for_ms, step_ms):
            self.agenda.run(step_ms)
            self.check()

    def check(self) -> None:
        """No circle of edges that both ends have, and no level that is too high. A node that stood still may believe
        for a while in a parent that is gone."""
        children = {site.name: set(site.tree.children) for site in self.forest.running()}
        parents = {
            site.name: site.tree.parent
            for site in self.forest.running()
            if site.tree.parent is not None and site.name in children.get(site.tree.parent, ())
        }
        known = set[NodeName]()
        for name in parents:
            way, at = set[NodeName](), name
            while at not in known:
                assert at not in way, f"{sorted(way)} are a circle"
                way.add(at)
                above = parents.get(at)
                if above is None or above not in parents:
                    break
                at = above
            known |= way
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
            assert self.agenda.now_ms - began_ms <= within_ms, list(self.forest.lines())
        return self.agenda.now_ms - began_ms


def grow_fleet(count: int, seed: int, *, fanout: int = 16, is_large: bool = False) -> Fleet:
    """All start at once."""
    agenda, network, paused = Agenda(), Network(seed, NetworkFaults(), is_large=True), set[NodeName]()
    forest = Forest(
        agenda, network, seed, fanout=fanout, announce_ms=ANNOUNCE_MS, is_paused=paused.__contains__, is_large=is_large
    )
    for number in range(count):
        forest.start(NodeName(f"n{number:04}"))
    return Fleet(forest, network, agenda, paused)


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
            fleet.paused.clear()
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
    fleet.paused.clear()
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
            assert found == sorted(set(found)), f"{site.name} heard {origin} twice, or out of order"
        heard = {frame.origin for frame in site.heard if frame.body.decode() == last}
        assert heard == {other.name for other in sites} - {site.name}


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
        fleet.forest.stop(site.name)
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
