"""The server tree of a fleet's nodes.

Knows: what each node's machine is told at its start, and how people read where the nodes stand.  Does not know how a
tree grows (`core.server_tree`), nor how edges arrive (`tree_edges`).

Invariant: chance for trees is drawn from generators of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from random import Random
from typing import Final, assert_never

import attrs

from distkv.core.ground.frames import Heard, Lacked
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.phase import TreePhase
from distkv.core.server_tree.settings import TreeSettings
from distkv.core.tree_part import MakeTree
from distkv.model.event import NodeName
from distkv.sim.host import Host, Process
from distkv.sim.sayings import Listening


@attrs.frozen
class TreeNodes:
    """Gives each server that starts a machine of its own."""

    seed: int
    fanout: int
    announce_ms: int
    _starts: Counter[str] = attrs.field(factory=Counter)

    def make(self, host: Host) -> MakeTree:
        """For a server that starts."""
        self._starts[host.name] += 1
        rng = Random(f"tree of {host.name} {self.seed} {self._starts[host.name]}")
        return partial(ServerTree, TreeSettings(host.node, host.addr, self.fanout, self.announce_ms), rng)


class TreeWords:
    """What happens to one node in the tree, as people say it."""

    def __init__(self) -> None:
        self._told: tuple[TreePhase, NodeName | None] = (TreePhase.OUT, None)
        self._listening: Final = Listening()

    def told(self, tree: ServerTree, process: Process) -> Iterator[str]:
        """Of a step."""
        for heard in self._listening.news(process):
            match heard:
                case Heard(origin=origin, body=body):
                    yield f"gets from {origin.node}: {body.decode()}"
                case Lacked(origin=origin, first=first, last=last):
                    yield f"lacks {last - first + 1} of {origin.node}"
                case None:
                    pass
                case _:
                    assert_never(heard)
        now = tree.phase, tree.parent
        if now != self._told:
            self._told = now
            match tree.phase:
                case TreePhase.ROOT:
                    yield "is a root"
                case TreePhase.ATTACHED:
                    yield f"has the parent {tree.parent}, level {tree.level}"
                case TreePhase.LOOKING:
                    yield "looks for a parent"
                case TreePhase.PENDING:
                    yield "takes no children"
                case TreePhase.OUT:
                    pass


def tree_lines(hosts: Iterable[Host]) -> Iterator[str]:
    """Where each node stands, and whom it hears, in words."""
    for host in hosts:
        tree = host.process.replica.server_tree if host.process is not None else None
        if tree is not None and tree.phase is not TreePhase.OUT:
            where = " below ".join(tree.path) if tree.path else f"{host.node} {tree.phase}"
            yield f"tree: {where}; hears {' '.join(sorted(tree.announced)) or 'nobody'}"
