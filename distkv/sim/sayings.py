"""A service of the simulator that does nothing but say texts to all nodes of the server tree, and keep what it hears.

Knows: what each start of a server heard.  Does not know the tree, nor what must be true of it (`rules.trees`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final

import attrs

from distkv.core.ground.frames import Heard, Lacked
from distkv.core.ground.machine import ServiceGround, ServiceInput, Setting
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import ServiceAsked
from distkv.sim.host import Host, Process
from distkv.wire.services import ServiceRequest

SAY: Final = "say"
_IDS: Final = count(-1, -1)
"""Nobody else uses these."""


@attrs.frozen(slots=True)
class SayText(ServiceRequest):
    """Say a text to all nodes."""

    seq: int
    body: bytes


class Sayings:
    """The machine of one server."""

    def __init__(self) -> None:
        self.heard: Final = list[Heard | Lacked | None]()
        """All that it was told; None: it began (anew)."""

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:  # noqa: ARG002
        self.heard.append(None)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, Heard | Lacked):
            self.heard.append(what)
        elif isinstance(what, ServiceAsked) and isinstance(what.request, SayText):
            turn.tell_all(what.request.body)
            turn.answer(what.id, {})

    def wake_ms(self) -> int | None:
        return None

    def statistics(self) -> Mapping[str, object]:
        return {}

    def alike(self) -> Mapping[str, Setting]:
        return {}

    def check(self, *, is_whole: bool = True) -> None:
        """There is nothing to look at."""


class SayingNodes:
    """See `ServiceNodes`."""

    def start(self, host: Host) -> Sayings:  # noqa: ARG002
        return Sayings()


def say(process: Process, body: bytes) -> None:
    """Have a server say something to all."""
    process.host.give(process, lambda: process.step(ServiceAsked(SAY, next(_IDS), SayText(0, body))))


class Listening:
    """Reads what the service of one server was told."""

    def __init__(self) -> None:
        self._count = 0

    def news(self, process: Process) -> list[Heard | Lacked | None]:
        """What it was told since this was asked last."""
        machine = process.replica.services.get(SAY)
        if not isinstance(machine, Sayings) or len(machine.heard) == self._count:
            return []
        found = machine.heard[self._count :]
        self._count = len(machine.heard)
        return found
