"""Records what a fleet does as moments of a trace.

Knows: which observed happenings are a node's steps and which befell it.  Does not know what becomes of the moments.

Invariant: moments are written in the order in which they happened; nothing is kept but what requests need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from distkv.core.ready import Input, Ready
from distkv.graph.recorder import Recorder, outside
from distkv.graph.trace import ENDED, Moment
from distkv.sim.host import Process
from distkv.sim.rule import Observer
from distkv.sim.trees import TreeWords
from distkv.wire.message import Record


class Recording(Observer):
    """Hands each moment to `write`, with the true time."""

    def __init__(self, write: Callable[[Moment], object]) -> None:
        self._write = write
        self._recorders: dict[Process, Recorder] = {}
        self._trees: dict[Process, TreeWords] = {}

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        self._recorders[process], self._trees[process] = Recorder(), TreeWords()

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        moment = self._recorders[process].step(process.now_ms, what, ready, process.replica)
        if moment is not None:
            self._write(attrs.evolve(moment, node=process.host.name))  # two hosts may have servers of one name
        tree = process.replica.server_tree
        for words in self._trees[process].told(tree, process) if tree is not None else ():
            self._write(outside(process.now_ms, process.host.name, words))

    def befell(self, at_ms: int, name: str, what: str) -> None:
        self._write(outside(at_ms, name, what))

    def client(self, at_ms: int, name: str, what: str) -> None:
        self._write(outside(at_ms, name, what))

    def ended(self, process: Process) -> None:
        del self._recorders[process], self._trees[process]
        self._write(outside(process.now_ms, process.host.name, ENDED))
