"""What the serving of tokens sees of the consensus of the servers.

Knows: the interface only.  Does not know how the servers agree.

Invariant: until `grants_until_ms` no other server is responsible for what `effective` gives to this one; and of all
nodes one at the most leads.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from distkv.core.tokens.state import TokenState
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding


class Authority(Protocol):
    """All times are milliseconds by this node's clock."""

    @property
    def effective(self) -> TokenState | None:
        """The newest version that this node knows to be on a durable majority."""

    @property
    def grants_until_ms(self) -> int:
        """Until when this server may grant what is its part; 0: not at all."""

    @property
    def leads_until_ms(self) -> int:
        """Until when this node may confirm keep-alives and propose."""

    @property
    def elected_ms(self) -> int:
        """When this node was elected the last time, since its start."""

    def propose_open(self, ttl_ms: int, tag: str) -> None:
        """On the leader: open a session; its id, when it is in effect, is VERSION-TAG.

        Raises:
            BusyError: there are too many.
        """

    def propose_end(self, sessions: Collection[str]) -> None:
        """On the leader: end these."""

    def propose_servers(self, servers: Collection[NodeName]) -> None:
        """On the leader: this list of servers is to come into force. Ask again if another node leads meanwhile.

        Raises:
            BusyError: another change is under way.
        """

    def change_waits_for(self, servers: Collection[NodeName], now_ms: int) -> str:
        """On the leader: what that waits for, in words; empty: nothing, it is in force."""

    def stand(self, standing: ServerStanding) -> None:
        """What this server is ready for: it wants to boot, or has all of its part."""
