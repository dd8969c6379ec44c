"""One service that works on this node: its machine, and what goes between it and itself on other nodes.

Knows: when it wants to be woken.  Does not know what it does.
"""

from __future__ import annotations

import attrs

from distkv.core.ground.machine import ServiceMachine
from distkv.core.ground.node_calls import NodeCalls


@attrs.define(slots=True)
class Mounted:
    """It has not failed."""

    name: str
    machine: ServiceMachine
    calls: NodeCalls
    """Since the machine began."""

    def wake_ms(self) -> int | None:
        """When there is something to do, if nothing happens before."""
        machine_ms, calls_ms = self.machine.wake_ms(), self.calls.wake_ms()
        if machine_ms is None or calls_ms is None:
            return calls_ms if machine_ms is None else machine_ms
        return min(machine_ms, calls_ms)
