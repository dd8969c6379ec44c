"""Processes go on: ready is not left, and nobody spins.

Knows: the states of replicas and their wakes.  Does not know why they are woken.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ready import Input, Ready, Wake
from distkv.sim.host import Process
from distkv.sim.rule import Observer

WAKES_MAX: Final = 50
"""How many wakes in one virtual millisecond are a busy loop."""


class ReadyStays(Observer):
    """A process that served clients serves them until it ends (docs/protocol, START-2)."""

    rule = "ready stays"

    def __init__(self) -> None:
        self._serving: dict[str, Process] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        name = process.host.name
        if process.replica.is_serving:
            self._serving[name] = process
        elif self._serving.get(name) is process:
            raise self.broken(f"{name} served clients and is {process.replica.state} now")


class NoBusyLoop(Observer):
    """Who is woken has something to do, or asks for a later moment."""

    rule = "no busy loop"

    def __init__(self) -> None:
        self._wakes: dict[str, tuple[int, int]] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if not isinstance(what, Wake):
            return
        name, now_ms = process.host.name, process.now_ms
        at_ms, count = self._wakes.get(name, (now_ms, 0))
        count = count + 1 if at_ms == now_ms else 1
        self._wakes[name] = now_ms, count
        if count > WAKES_MAX:
            raise self.broken(f"{name} ({process.replica.state}) was woken {count} times at {now_ms} ms")
