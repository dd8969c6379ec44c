"""The server tree: never a circle, one tree in the end, and what goes over it.

Knows: where each node stands, which frames it gets, and how much waits on its edges.  Does not know how a parent is
chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from distkv.core.edges import EdgeInput
from distkv.core.ground.frames import Heard, Lacked, Origin
from distkv.core.ready import Input, Ready, ServiceAsked
from distkv.core.server_tree.backlog import ITEMS_MAX
from distkv.core.server_tree.machine import ServerTree
from distkv.model.event import NodeName
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from distkv.sim.sayings import Listening, SayText

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
    """Each node is told each number of an origin once, from 1 on, in order: it hears or lacks it. In the end everybody
    who speaks and does not start anew hears everybody (TREE-10, TREE-19)."""

    rule = "everything is heard once"

    def __init__(self) -> None:
        self._listening: dict[Process, Listening] = {}
        self._numbers: dict[tuple[Process, NodeName], tuple[int, int]] = {}
        self._lasts: dict[Process, set[NodeName]] = {}
        """Who said the last word, and whose each of them heard."""

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if isinstance(what, ServiceAsked) and isinstance(what.request, SayText) and what.request.body == LAST:
            self._lasts[process] = set()
        for told in self._listening.setdefault(process, Listening()).news(process):
            match told:
                case None:
                    self._forget(process)
                case Heard(origin=origin, number=number, body=body):
                    self._told(process, origin, number, number)
                    if body == LAST and process in self._lasts:
                        self._lasts[process].add(origin.node)
                case Lacked(origin=origin, first=first, last=last):
                    self._told(process, origin, first, last)
                case _:
                    assert_never(told)

    def ended(self, process: Process) -> None:
        self._listening.pop(process, None)
        self._forget(process)

    def settled(self, fleet: Observed) -> None:
        spoke = {host.node: host.process for host in fleet.ours() if host.process in self._lasts}
        for name, process in spoke.items():
            if process is not None:
                lacks = spoke.keys() - {name} - self._lasts[process]
                if lacks:
                    raise self.broken(f"{name} did not hear the last word of {', '.join(sorted(lacks))}")

    def _forget(self, process: Process) -> None:
        for key in [key for key in self._numbers if key[0] is process]:
            del self._numbers[key]

    def _told(self, process: Process, origin: Origin, first: int, last: int) -> None:
        key, name = (process, origin.node), process.host.name
        start, before = self._numbers.get(key, (0, 0))
        expected = before + 1 if origin.start == start else 1
        if first != expected or last < first or origin.start < start or origin.node == process.host.node:
            raise self.broken(f"{name} is told {first} to {last} of {origin}, and not {expected} of {start}")
        self._numbers[key] = origin.start, last


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
