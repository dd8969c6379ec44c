"""What a token server is told at its start.

Knows: the values, and the two lengths of a lease.  Does not know what becomes of them.

Invariant: settings never change while a node runs; a short lease that began earlier has ended on every clock when a
long one has on any.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from math import ceil, floor

import attrs

from distkv.model.event import NodeName


def _by_name(names: Iterable[NodeName]) -> tuple[NodeName, ...]:
    return tuple(sorted(names))


@attrs.frozen
class ConsensusSettings:
    """The same at all servers, but for `me`."""

    me: NodeName
    servers: tuple[NodeName, ...] = attrs.field(converter=_by_name)
    """1, 3, 5 or 7 names: the list that is founded. Afterwards the one that the servers agreed on counts."""
    lease_ms: int
    drift: float
    """By how much a clock may go wrong, as a part of the time that passes."""
    sessions_max: int = 10_000
    servers_hash: bytes = attrs.field(init=False)
    """Of this list: a server with another one has other settings, and does not found with this one."""

    @servers_hash.default
    def _hash(self) -> bytes:
        return blake2b("\n".join(self.servers).encode(), digest_size=8).digest()

    @property
    def is_server(self) -> bool:
        """Whether this node is named."""
        return self.me in self.servers

    @property
    def others(self) -> tuple[NodeName, ...]:
        """All of the list but this node."""
        return tuple(name for name in self.servers if name != self.me)

    @property
    def short_ms(self) -> int:
        """For how long whoever holds a lease counts on it: never more than `lease_ms` of true time."""
        return floor(self.lease_ms * (1 - self.drift))

    @property
    def long_ms(self) -> int:
        """For how long whoever gave a lease honours it: never less than `lease_ms` of true time. One more, because the
        clock that is read was rounded down."""
        return ceil(self.lease_ms * (1 + self.drift)) + 1

    @property
    def round_ms(self) -> int:
        """From one round of the leader to the next one."""
        return max(1, self.lease_ms // 5)
