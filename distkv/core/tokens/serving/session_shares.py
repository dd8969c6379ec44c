"""How many of all sessions the clients of one node, host or connection may have: so that others still get some.

Knows: by their tags, who opened which sessions.  Does not know which are in effect.

Invariant: whoever opens sessions leaves at least as many free as it has (docs/protocol, SESSION-14). Who has nobody
beside it may have all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from distkv.core.tokens.session_tags import connection_part, node_part, origin_part


class SessionShares:
    """Of all sessions that there are, or that are to be opened."""

    def __init__(self, sessions_max: int) -> None:
        self.is_one_node = False
        """Whether no other node belongs to the network."""
        self._max: Final = sessions_max
        self._tags: Final = dict[str, None]()
        self._nodes: Final = Counter[str]()
        self._origins: Final = Counter[str]()
        self._connections: Final = Counter[str]()

    def reset(self, sessions: Iterable[str]) -> None:
        """These there are, and no others."""
        for some in (self._tags, self._nodes, self._origins, self._connections):
            some.clear()
        for session in sessions:
            self.put(session.partition("-")[2])

    def put(self, tag: str) -> None:
        """A session is there, or about to be."""
        if tag not in self._tags:
            self._tags[tag] = None
            for counts, part in self._parts(tag):
                counts[part] += 1

    def drop(self, tag: str) -> None:
        """It is not any more."""
        if tag in self._tags:
            del self._tags[tag]
            for counts, part in self._parts(tag):
                counts[part] -= 1
                if not counts[part]:
                    del counts[part]

    def refusal(self, tag: str) -> str | None:
        """Why another session with this tag is not opened; None: it may be."""
        free = self._max - len(self._tags)
        if free <= 0:
            return f"there are {self._max} sessions: end some, or raise limits.token_sessions"
        node, origin, connection = node_part(tag), origin_part(tag), connection_part(tag)
        shares = [("the clients of this node have", self._nodes[node], ", ask at another node")]
        if self.is_one_node:
            shares = []
        if origin:
            shares.append(("connections from this host opened", self._origins[origin], ""))
        shares.append(("this connection opened", self._connections[connection], ""))
        for who, count, or_else in shares:
            if count >= free and count:
                return (
                    f"{who} {count} of {self._max} sessions, and those that are left are for others:"
                    f" end some{or_else}, or raise limits.token_sessions"
                )
            free -= count
        return None

    # -- inside

    def _parts(self, tag: str) -> tuple[tuple[Counter[str], str], ...]:
        return (
            (self._nodes, node_part(tag)), (self._origins, origin_part(tag)), (self._connections, connection_part(tag)),
        )  # fmt: skip
