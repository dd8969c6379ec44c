"""What befell the nodes of a run, as far as the promises of topics depend on it.

Knows: which faults split a network, and which lose a disk.  Does not know what is promised (`rules`).

Invariant: what was once split counts as split to the end: what both sides took may come later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.core.ready import Input, Ready
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observer
from distkv.wire.message import Record, ResetRecord, StaleRecord

_CUTS: Final = ("split ", "cut ", "foreign")
"""How it begins what befalls the ways between nodes."""
APART: Final = frozenset({"is cut off from all", "agent stops", "gets a namesake"})
"""What befalls a node that the others do not see then, or take for another one."""
RETIRED: Final = "is said to be gone for good"
"""Nobody waits for what only this node has."""
_SAID: Final = (RETIRED, "starts again with the address of")


class Troubles(Observer):
    """It breaks nothing; rules ask it."""

    def __init__(self) -> None:
        self.split_ms: int | None = None
        """Since when nodes may have been apart; None: never."""
        self._now_ms = 0
        self._lost: dict[str, int] = {}
        """By host, when its disk was lost or set back last, or it was retired."""
        self._joined: set[str] = set()
        """Hosts that have something to lose: a new one begins with an empty disk, too."""

    @property
    def is_whole(self) -> bool:
        """Whether there was neither a split nor a lost disk."""
        return self.split_ms is None and not self._lost

    def lost_since(self, at_ms: int) -> int:
        """How many hosts lost their disks since then, or were retired."""
        return sum(lost_ms >= at_ms for lost_ms in self._lost.values())

    # -- what happens

    def befell(self, at_ms: int, name: str, what: str) -> None:
        self._now_ms = at_ms
        if (not name and what.startswith(_CUTS)) or what in APART or what.startswith(_SAID):
            self.split_ms = at_ms if self.split_ms is None else self.split_ms
        if what == RETIRED:
            self._lost[name] = at_ms

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._lost[host.name] = self._now_ms  # it was said a moment ago what befell the host
        if host.disk.is_empty:
            self._joined.discard(host.name)

    def started(self, process: Process, records: Sequence[Record]) -> None:
        if records:
            self._joined.add(process.host.name)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if ready.records and any(isinstance(record, ResetRecord | StaleRecord) for record in ready.records):
            name = process.host.name
            if name in self._joined:
                self._lost[name] = process.now_ms
            self._joined.add(name)
