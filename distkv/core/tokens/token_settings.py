"""What a node is told about tokens at its start.

Knows: the values.  Does not know what becomes of them.

Invariant: settings never change while a node runs.
"""

from __future__ import annotations

import attrs

from distkv.config import Config
from distkv.core.tokens.config import TokenLimits, TokensConfig
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

    @classmethod
    def of(cls, config: Config) -> TokenSettings:
        """As a configuration has them; without servers there is no token service."""
        tokens, limits = config.of(TokensConfig), config.of(TokenLimits)
        lease_ms = int(tokens.lease_s * 1000)
        return cls(
            servers=tuple(NodeName(name) for name in tokens.servers),
            lease_ms=lease_ms,
            ttl_ms=max(int(tokens.ttl_s * 1000), 3 * lease_ms),
            lock_delay_ms=lease_ms // 2 if tokens.lock_delay_s is None else int(tokens.lock_delay_s * 1000),
            drift=tokens.drift,
            sessions_max=limits.token_sessions,
            tokens_max=limits.tokens,
            waiters_max=limits.token_waiters,
        )

    def alike(self) -> dict[str, int | float | str]:
        """Those that people have to set alike, by their keys in the configuration."""
        if not self.servers:
            return {"tokens.servers": ""}
        return {"tokens.servers": ", ".join(sorted(self.servers)), "tokens.lease": self.lease_ms / 1000}
