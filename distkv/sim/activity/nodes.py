"""The activity service on the hosts of a fleet.

Knows: which machine each start of a host has.  Does not know who is connected (`crowd`).

Invariant: chance for activities is drawn from generators of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Final

import attrs

from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.node import ActivityNode
from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.core.ground.machine import ServiceMachine
from distkv.sim.host import Host
from distkv.sim.service_nodes import ServiceNodes

GAP_MAX: Final = 200
"""Of so many activities that one gap has is looked who has them."""


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

    def holders(self, origin: str, number: int) -> list[str]:
        """The hosts that run and have an activity."""
        running = [name for name in self.machines if self.hosts[name].process is not None]
        return [name for name in running if _has(self.machines[name].node, origin, number)]

    def holders_of(self, origin: str, first: int, last: int) -> dict[int, list[str]]:
        """The same of several, the last ones of them."""
        first = max(first, last - GAP_MAX)
        return {number: self.holders(origin, number) for number in range(first, last + 1)}

    def start(self, host: Host) -> ServiceMachine:
        """For a host that starts."""
        name = host.name
        self._starts[name] += 1
        rng = Random(f"activity of {name} {self.seed} {self._starts[name]}")
        machine = self.machines[name] = ActivityMachine(self.settings, rng)
        return machine


def _has(node: ActivityNode | None, origin: str, number: int) -> bool:
    if node is None:
        return False
    delivery = node.delivery
    own = delivery.own.between(number, number) if origin == delivery.origin else []
    kept, held = delivery.kept.between(origin, number, number), delivery.origins.held_of(origin, number, number)
    return bool(own or kept or held)


def activity_nodes(services: Mapping[str, ServiceNodes]) -> ActivityNodes | None:
    """The activity service among the services of a fleet, if it is there."""
    found = services.get(ACTIVITY)
    return found if isinstance(found, ActivityNodes) else None
