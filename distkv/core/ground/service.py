"""A service, as a node mounts it.

Knows: the form of that, and which services are mounted.  Does not know what any of them does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from distkv import mount
from distkv.config import Config
from distkv.core.ground.machine import ServiceMachine, Setting
from distkv.core.ready import Rng


@attrs.frozen
class Service:
    """What a node has to know of a service to have it."""

    name: str
    machine: Callable[[Config, Rng], ServiceMachine | None]
    """A machine of it for one start of a node; None: the settings leave it out."""
    alike: Callable[[Config], Mapping[str, Setting]]
    """What `ServiceMachine.alike` says on a node of this configuration; where it is left out: `alike_off`."""
    alike_off: Mapping[str, Setting] = attrs.field(factory=dict)
    """The same of a node that has it not."""


def mounted() -> tuple[Service, ...]:
    """All services that there are."""
    return tuple([part.SERVICE for part in mount.parts("core")])


def machines(config: Config, rng: Rng) -> dict[str, ServiceMachine]:
    """Those of a node of this configuration, by the names of their services."""
    made = {service.name: service.machine(config, rng) for service in mounted()}
    return {name: machine for name, machine in made.items() if machine is not None}
