"""A service on the hosts of a fleet.

Knows: what a server that starts has to get of it.  Does not know any service.
"""

from __future__ import annotations

from typing import Protocol

from distkv.core.ground.machine import ServiceMachine
from distkv.sim.host import Host


class ServiceNodes(Protocol):
    """What one service has on all hosts."""

    def start(self, host: Host) -> ServiceMachine:
        """A machine for a server that starts."""
