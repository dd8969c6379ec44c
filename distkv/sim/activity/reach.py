"""Which nodes run, and which could ask each other all the while, as far as what is promised to clients depends on it.

Knows: cuts, pauses and agents that stopped, and when each was last.  Does not know activities, nor what is promised
(`rules`).

Invariant: what troubled a node or a way counts from its last moment on: it lasts until `second` sees it no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import Record

CALM_MS: Final = 30_000
"""So long after a trouble nodes have seen each other again, and are one tree."""

_CUTS: Final = ("split ", "cut ", "heal", "divert ", "foreign", "all faults end")
"""How it begins what befalls the ways between all."""
_LASTING: Final = {
    "gets a namesake": True,
    "loses its namesake": False,
    "agent stops": True,
    "agent starts": False,
    "starts again with its own address": False,
}
_TROUBLES: Final = (*_LASTING, "is cut off", "is back", "pauses", "goes on", "is said to be gone", "starts again with")

NodeStart: TypeAlias = tuple[str, int]
"""A node, and which start of it."""


class ActivityReach(Observer):
    """It breaks nothing; rules ask it."""

    def __init__(self) -> None:
        self._starts: Final = Counter[str]()
        self._began_ms: Final = dict[str, int]()
        """Of each that runs."""
        self._troubled_ms: Final = dict[str, int]()
        """By node, when it was last in trouble."""
        self._apart_ms: Final = dict[tuple[str, str], int]()
        """The same of two nodes, each way."""
        self._all_ms = -CALM_MS
        """The same of all."""
        self._lasting: Final = set[str]()

    # -- questions

    @property
    def running(self) -> list[str]:
        """The nodes that run."""
        return [*self._began_ms]

    def start_of(self, node: str) -> NodeStart:
        """The one that runs, or ran last."""
        return node, self._starts[node]

    def is_running(self, start: NodeStart) -> bool:
        """Whether it is not over."""
        return start[0] in self._began_ms and start == self.start_of(start[0])

    def has_run(self, node: str, since_ms: int) -> bool:
        """Whether it runs, without an end since then."""
        return self._began_ms.get(node, since_ms + 1) <= since_ms

    def is_calm(self, node: str, since_ms: int) -> bool:
        """Whether it had no trouble since then, with no other node."""
        pairs = (ms for (one, _), ms in self._apart_ms.items() if one == node)
        return max([self._all_ms, self._troubled_ms.get(node, self._all_ms), *pairs]) < since_ms

    def could_ask(self, one: str, other: str, since_ms: int) -> bool:
        """Whether nothing was between two nodes since then."""
        if one == other:
            return True
        last = self._all_ms
        troubles = [self._troubled_ms.get(one, last), self._troubled_ms.get(other, last)]
        return max(last, *troubles, self._apart_ms.get((one, other), last)) < since_ms

    # -- what happens

    def befell(self, at_ms: int, name: str, what: str) -> None:
        if not name and what.startswith(_CUTS):
            self._all_ms = at_ms
        elif what.startswith(_TROUBLES):
            self._troubled_ms[name] = at_ms
            if _LASTING.get(what, what.startswith("starts again with the address")):
                self._lasting.add(name)
            elif what in _LASTING:
                self._lasting.discard(name)

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        name = process.host.name
        self._starts[name] += 1
        self._began_ms[name] = process.now_ms

    def ended(self, process: Process) -> None:
        self._began_ms.pop(process.host.name, None)

    def second(self, fleet: Observed) -> None:
        now_ms = fleet.now_ms
        for host in fleet.ours():
            if host.is_paused or not host.agent.is_up or host.name in self._lasting:
                self._troubled_ms[host.name] = now_ms
        if isinstance(fleet, Fleet):
            for one, other in fleet.network.cut:
                self._apart_ms[one, other] = self._apart_ms[other, one] = now_ms
