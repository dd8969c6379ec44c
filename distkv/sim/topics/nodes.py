"""Topic servers on the hosts of a fleet.

Knows: which hosts keep topics, and what every host is told.  Does not know how topics are kept (`core.topics`), nor who
asks for them (`crowd`).

Invariant: chance for topics is drawn from generators of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import attrs

from distkv.core.ground.machine import ServiceMachine
from distkv.core.topics.machine import TopicMachine
from distkv.core.topics.settings import TOPICS, TopicSettings
from distkv.sim.host import Host
from distkv.sim.service_nodes import ServiceNodes


@attrs.frozen
class TopicNodes:
    """Gives each host that starts a machine of its own."""

    hosts: Mapping[str, Host]
    """Of the fleet, in their order."""
    seed: int
    count: int
    """The first so many hosts keep topics; the others only pass on what clients ask."""
    settings: TopicSettings
    machines: dict[str, TopicMachine] = attrs.field(factory=dict)
    """By host, of the last start of each."""
    _starts: Counter[str] = attrs.field(factory=Counter)

    @property
    def bound_ms(self) -> int:
        """When all is well no put waits longer."""
        return int((3 * self.settings.lease_ms + 5000) * (1 + 2 * self.settings.drift))

    def start(self, host: Host) -> ServiceMachine:
        """For a host that starts."""
        name = host.name
        self._starts[name] += 1
        ours = [one.name for one in self.hosts.values() if one.is_ours]
        settings = attrs.evolve(self.settings, serve=name in ours[: self.count])
        rng = Random(f"topics of {name} {self.seed} {self._starts[name]}")
        machine = self.machines[name] = TopicMachine(settings, rng)
        return machine


def topic_nodes(services: Mapping[str, ServiceNodes]) -> TopicNodes | None:
    """The topic servers among the services of a fleet, if there are any."""
    found = services.get(TOPICS)
    return found if isinstance(found, TopicNodes) else None
