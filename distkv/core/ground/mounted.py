"""One service that works on this node: its machine, and what goes between it and itself on other nodes.

Knows: when it wants to be woken.  Does not know what it does.
"""

from __future__ import annotations

import attrs

from distkv.core.ground.data import Data
from distkv.core.ground.frames import HeardNumbers
from distkv.core.ground.machine import ServiceMachine
from distkv.core.ground.node_calls import NodeCalls


@attrs.define(slots=True)
class Mounted:
    """It has not failed."""

    name: str
    machine: ServiceMachine
    data: Data
    """What all services of the node keep row by row."""
    calls: NodeCalls
    """Since the machine began; so are the numbers."""
    numbers: HeardNumbers = attrs.field(factory=HeardNumbers)
    """Of the frames that it was told."""

    due_ms: int | None = None
    """When there is something to do, if nothing happens before; since the last step."""

    def note_due(self) -> None:
        """A step is over."""
        machine_ms, calls_ms = self.machine.wake_ms(), self.calls.wake_ms()
        self.due_ms = calls_ms if machine_ms is None or (calls_ms is not None and calls_ms < machine_ms) else machine_ms
