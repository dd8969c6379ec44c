"""The ring is one ring: on its owner after every step and every start, in the end on all.

Knows: where the links lead.  So it knows whether a batch is whole or not at all, on the disk too, without any other
reference.
"""

from __future__ import annotations

from collections.abc import Sequence

from distkv.core.client_writes import LocalBatch
from distkv.core.ready import Input, Ready
from distkv.model.tree import Tree
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from distkv.sim.workload import OWNER, RING_LENGTH, ring_links
from distkv.wire.message import Record


class RingStays(Observer):
    """Whoever follows the links comes by every path once."""

    rule = "the ring stays one"

    def __init__(self) -> None:
        self._is_owned = True
        self._is_whole = True

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        if process.host.name == OWNER and self._is_owned:
            self._check(OWNER, process.replica.tree)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if isinstance(what, LocalBatch) and process.host.name == OWNER and self._is_owned:
            self._check(OWNER, process.replica.tree)

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:
        if host.name == OWNER:
            self._is_owned = False  # a batch that comes back may be seen in part until all of it is there
            self._is_whole &= is_copied

    def settled(self, fleet: Observed) -> None:
        for host in fleet.ours() if self._is_whole else ():
            self._check(host.name, host.live.tree)

    def _check(self, name: str, tree: Tree) -> None:
        links = ring_links(tree)
        if not links:
            return
        at, seen = 0, []
        for _ in range(RING_LENGTH):
            at = links[at]
            seen.append(at)
        if sorted(seen) != [*range(RING_LENGTH)]:
            raise self.broken(f"{name} has a broken ring: {links}")
