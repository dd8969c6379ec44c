"""Each machine of a node keeps what its docstring promises, as its `check` says.

Knows: when what is looked at.  Does not know any machine.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ready import Input, Ready
from distkv.model.invariant import BrokenInvariantError
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer

WHOLE_EVERY: Final = 64
"""After so many steps the store is looked at, too; all else is after each."""


class PromisesAreKept(Observer):
    """No machine is in a state that it says it is never in."""

    rule = "each machine keeps its invariant"

    def __init__(self) -> None:
        self._steps = 0

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        self._steps += 1
        self._check(process, is_whole=self._steps % WHOLE_EVERY == 0)

    def ended(self, process: Process) -> None:
        self._check(process)

    def settled(self, fleet: Observed) -> None:
        for host in fleet.running():
            if host.process is not None:
                self._check(host.process)

    def _check(self, process: Process, *, is_whole: bool = True) -> None:
        try:
            process.replica.check(is_whole=is_whole)
        except BrokenInvariantError as error:
            raise self.broken(f"{process.host.name}: {error}") from error
