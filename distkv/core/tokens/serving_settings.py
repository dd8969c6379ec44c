"""What a node is told about the serving of tokens at its start.

Knows: the values.  Does not know what becomes of them.

Invariant: settings never change while a node runs.
"""

from __future__ import annotations

from math import ceil

import attrs

from distkv.model.event import NodeName


@attrs.frozen
class ServingSettings:
    """The same at all nodes, but for `me` and `boot`."""

    me: NodeName
    servers: tuple[NodeName, ...]
    """The names of the settings, sorted: who is asked as long as nothing else is known."""
    boot: int
    """Which start of this node it is; above all earlier ones."""
    lease_ms: int = 5000
    ttl_ms: int = 15_000
    lock_delay_ms: int = 2500
    """How long nobody gets a token whose session ended: what is still on its way arrives."""
    drift: float = 0.01
    sessions_max: int = 10_000
    tokens_max: int = 100_000
    """How many tokens one server remembers, and how many questions wait for a part that is not served yet."""
    waiters_max: int = 1000
    """How many sessions may wait for one token."""
    all_waiters_max: int = 100_000
    """How many may wait at one server."""
    requests_max: int = 65_536
    """How many requests of its clients one node has under way."""

    @property
    def grace_ms(self) -> int:
        """How long who waited keeps his place after he left."""
        return self.lease_ms // 2

    def long_ms(self, ms: int) -> int:
        """What is at least so long by each clock."""
        return ceil(ms * (1 + self.drift)) + 1
