"""Token servers on the hosts of a fleet.

Knows: which hosts are servers, and what every server is told.  Does not know how tokens are served (`core.tokens`), nor
who asks for them (`clients`).

Invariant: without servers the fleet is as it would be if there were no tokens; with them, chance for tokens is drawn
from generators of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import attrs

from distkv.core.ground.machine import ServiceMachine
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings
from distkv.sim.host import Host
from distkv.sim.service_nodes import ServiceNodes


@attrs.frozen
class TokenNodes:
    """Gives each server that starts a machine of its own."""

    hosts: Mapping[str, Host]
    """Of the fleet, in their order."""
    seed: int
    count: int
    """The first so many hosts are servers; the others only pass on what clients ask."""
    lease_ms: int
    ttl_ms: int
    drift: float
    """How wrong a clock may be, as a part of the time that passes."""
    machines: dict[str, TokenMachine] = attrs.field(factory=dict)
    """By host, of the last start of each."""
    _starts: Counter[str] = attrs.field(factory=Counter)

    @property
    def settings(self) -> TokenSettings:
        """The same for all."""
        ours = [host.node for host in self.hosts.values() if host.is_ours]
        return TokenSettings(
            servers=tuple(ours[: self.count]),
            lease_ms=self.lease_ms,
            ttl_ms=self.ttl_ms,
            lock_delay_ms=self.lease_ms // 2,
            drift=self.drift,
        )

    @property
    def bound_ms(self) -> int:
        """When all is well nobody waits longer for a token that nobody holds, by any clock."""
        settings = self.settings
        return int((3 * settings.lease_ms + settings.ttl_ms + settings.lock_delay_ms) * (1 + 2 * self.drift))

    def start(self, host: Host) -> ServiceMachine:
        """For a server that starts."""
        name = host.name
        self._starts[name] += 1
        rng = Random(f"tokens of {name} {self.seed} {self._starts[name]}")
        machine = self.machines[name] = TokenMachine(self.settings, rng)
        return machine


def token_nodes(services: Mapping[str, ServiceNodes]) -> TokenNodes | None:
    """The token servers among the services of a fleet, if there are any."""
    found = services.get(TOKENS)
    return found if isinstance(found, TokenNodes) else None
