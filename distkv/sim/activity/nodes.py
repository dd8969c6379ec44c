"""The activity service on the hosts of a fleet.

Knows: which machine each start of a host has.  Does not know who is connected (`crowd`).

Invariant: chance for activities is drawn from generators of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import attrs

from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.core.ground.machine import ServiceMachine
from distkv.sim.host import Host
from distkv.sim.service_nodes import ServiceNodes


@attrs.frozen
class ActivityNodes:
    """Gives each host that starts a machine of its own."""

    hosts: Mapping[str, Host]
    """Of the fleet, in their order."""
    seed: int
    settings: ActivitySettings
    machines: dict[str, ActivityMachine] = attrs.field(factory=dict)
    """By host, of the last start of each."""
    _starts: Counter[str] = attrs.field(factory=Counter)

    def start(self, host: Host) -> ServiceMachine:
        """For a host that starts."""
        name = host.name
        self._starts[name] += 1
        rng = Random(f"activity of {name} {self.seed} {self._starts[name]}")
        machine = self.machines[name] = ActivityMachine(self.settings, rng)
        return machine


def activity_nodes(services: Mapping[str, ServiceNodes]) -> ActivityNodes | None:
    """The activity service among the services of a fleet, if it is there."""
    found = services.get(ACTIVITY)
    return found if isinstance(found, ActivityNodes) else None
