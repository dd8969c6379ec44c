"""How many of all sessions the clients of one node, or of one connection, may have: so that others still get some.

Knows: by their tags, who opened which sessions.  Does not know which are in effect.

Invariant: whoever opens sessions leaves at least as many free as it has (docs/protocol, SESSION-14).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from distkv.core.tokens.session_tags import asker_part, node_part


class SessionShares:
    """Of all sessions that there are, or that are to be opened."""

    def __init__(self, sessions_max: int) -> None:
        self._max: Final = sessions_max
        self._tags: Final = dict[str, None]()
        self._nodes: Final = Counter[str]()
        self._askers: Final = Counter[str]()

    def reset(self, sessions: Iterable[str]) -> None:
        """These there are, and no others."""
        for some in (self._tags, self._nodes, self._askers):
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
        (_, node), (_, asker) = self._parts(tag)
        ours, own = self._nodes[node], self._askers[asker]
        if ours >= free and ours:
            return (
                f"the clients of this node have {ours} of {self._max} sessions, and those that are left are for others:"
                " end some, ask at another node, or raise limits.token_sessions"
            )
        if own >= free - ours and own:
            return (
                f"this connection opened {own} of {self._max} sessions, and those that are left are for others: end "
                "some, or raise limits.token_sessions"
            )
        return None

    # -- inside

    def _parts(self, tag: str) -> tuple[tuple[Counter[str], str], tuple[Counter[str], str]]:
        return (self._nodes, node_part(tag)), (self._askers, asker_part(tag))
