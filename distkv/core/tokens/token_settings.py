"""What a node is told about tokens at its start.

Knows: the values.  Does not know what becomes of them.

Invariant: settings never change while a node runs.
"""

from __future__ import annotations

import attrs

from distkv.model.event import NodeName


@attrs.frozen
class TokenSettings:
    """The same on all nodes of a network."""

    servers: tuple[NodeName, ...]
    """Who serves tokens: 1, 3, 5 or 7 names."""
    lease_ms: int = 5000
    """How long a server may go on without having heard of the leader, and a majority without being asked to vote."""
    ttl_ms: int = 15_000
    """Of a session that asks for nothing else."""
    lock_delay_ms: int = 2500
    """How long nobody gets a token whose session ended."""
    drift: float = 0.01
    """By how much a clock may go wrong, as a part of the time that passes."""
    sessions_max: int = 10_000
    tokens_max: int = 100_000
    """How many tokens one server remembers."""
    waiters_max: int = 1000
    """How many sessions may wait for one token."""
