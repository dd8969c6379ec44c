"""The server tree: never a circle, one tree in the end, and what goes over it.

Knows: where each node stands, which frames it gets, and how much waits on its edges.  Does not know how a parent is
chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.edges import Deliver, EdgeInput, FrameGiven
from distkv.core.ready import Input, Ready
from distkv.core.server_tree.backlog import ITEMS_MAX
from distkv.core.server_tree.machine import ServerTree
from distkv.model.event import NodeName
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer

LAST: Final = b"last"
"""What each node says when all is well: all others are to hear it."""


class NoCircle(Observer):
    """No node is above itself (docs/protocol, TREE-3)."""

    rule = "no circle"

    def __init__(self) -> None:
        self._trees: dict[Process, ServerTree] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        tree = process.replica.server_tree
        if tree is None or not (ready.edges or isinstance(what, EdgeInput)):
            return
        tree.check()
        self._trees[process] = tree
        circle = circle_of({process.host.node: tree for process, tree in self._trees.items()})
        if circle:
            raise self.broken(f"{', '.join(circle)} are a circle")

    def ended(self, process: Process) -> None:
        self._trees.pop(process, None)


class HeardOnce(Observer):
    """Each node gets the frames of another one in their order, each once; in the end everybody who speaks and does not
    start anew hears everybody (TREE-10)."""

    rule = "everything is heard once"

    def __init__(self) -> None:
        self._numbers: dict[tuple[Process, NodeName], tuple[int, int]] = {}
        self._lasts: dict[Process, set[NodeName]] = {}
        """Who said the last word, and whose each of them heard."""

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        if isinstance(what, FrameGiven) and what.body == LAST:
            self._lasts[process] = set()
        for effect in ready.edges:
            if isinstance(effect, Deliver):
                frame = effect.frame
                number, key = (frame.start, frame.number), (process, frame.origin)
                before = self._numbers.get(key, (0, 0))
                if number <= before or frame.origin == process.host.node:
                    raise self.broken(f"{process.host.name} hears {number} of {frame.origin} after {before}")
                self._numbers[key] = number
                if frame.body == LAST and process in self._lasts:
                    self._lasts[process].add(frame.origin)

    def settled(self, fleet: Observed) -> None:
        spoke = {host.node: host.process for host in fleet.ours() if host.process in self._lasts}
        for name, process in spoke.items():
            if process is not None:
                lacks = spoke.keys() - {name} - self._lasts[process]
                if lacks:
                    raise self.broken(f"{name} did not hear the last word of {', '.join(sorted(lacks))}")


class OverrunEnds(Observer):
    """An edge whose other end does not take what is said ends (TREE-11)."""

    rule = "an edge that overruns ends"

    def second(self, fleet: Observed) -> None:
        for host in fleet.ours():
            if host.process is not None and host.process.edges.longest > ITEMS_MAX:
                raise self.broken(f"{host.process.edges.longest} items wait on an edge of {host.name}")


def circle_of(trees: Mapping[NodeName, ServerTree]) -> list[NodeName]:
    """Nodes that are above themselves by edges that both ends have; none, where all is well. A node that stood still
    may believe for a while in a parent that is gone."""
    parents = {child: name for name, tree in trees.items() for child in tree.children if _is_parent(name, child, trees)}
    known = set[NodeName]()
    for name in parents:
        way, at = list[NodeName](), name
        while at in parents and at not in known:
            if at in way:
                return sorted(way)
            way.append(at)
            at = parents[at]
        known.update(way)
    return []


def trees_of(fleet: Observed) -> dict[NodeName, ServerTree]:
    """Those of all nodes that take part."""
    found = {host.node: host.live.server_tree for host in fleet.ours()}
    return {name: tree for name, tree in found.items() if tree is not None}


def is_one_tree(fleet: Observed) -> bool:
    """Whether all are in one tree, and each hears all."""
    trees = trees_of(fleet)
    roots = {tree.path[-1] if tree.path else None for tree in trees.values()}
    hear_all = all(trees.keys() <= tree.announced.keys() for tree in trees.values())
    return hear_all and len(roots) <= 1 and None not in roots


def _is_parent(name: NodeName, child: NodeName, trees: Mapping[NodeName, ServerTree]) -> bool:
    return child in trees and trees[child].parent == name
