"""The common state of the token servers: one small document that is replaced, version by version.

Knows: what is in it, which server a token belongs to, and the difference between two versions.
Does not know how the servers agree on a version (`consensus`), nor what they do with one.

Invariant: a document never changes; of two that are in effect the one of the higher version came later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.wire.token_states import NO_STATE, ServerLine, StateChange, StateHead, StateId

ORDERS_MAX: Final = 4096
"""Of so many tokens the order of the servers is kept: one request asks for it several times."""


class ServerStanding(StrEnum):
    """What a token server is, in the eyes of all (docs/tokens)."""

    DOWN = "down"
    """It is responsible for nothing."""
    BOOTING = "booting"
    """It is responsible for its part, and collects what is in it."""
    READY = "ready"
    """It serves."""


@attrs.frozen(slots=True)
class TokenServer:
    """One of the named servers."""

    standing: ServerStanding
    life: int
    """The life of its directory. Under another one it has lost its disk, and is not asked before that is admitted."""
    since: int
    """The version in which it came to its standing."""


@attrs.frozen(slots=True)
class TokenState:
    """One version of the common state."""

    term: int
    version: int
    leader: NodeName
    servers: Mapping[NodeName, TokenServer]
    """All that are named in the settings, in the order of their names."""
    sessions: Mapping[str, int]
    """The ttl of each open session, in milliseconds."""
    changed: int
    """The version in which a server last changed: what clients are told, and answer to."""
    names: tuple[NodeName, ...] = attrs.field(init=False, eq=False, repr=False)
    """Of the servers. Kept, because each request asks several times whose a token is."""

    @names.default
    def _names(self) -> tuple[NodeName, ...]:
        return tuple(self.servers)

    def order(self, token: str) -> Iterator[NodeName]:
        """The servers in the order in which this token comes to them, which is another one for each token."""
        return iter(_order(self.names, token))

    def server_of(self, token: str) -> NodeName | None:
        """Who is responsible for a token: the first in its order that is not down."""
        for name in _order(self.names, token):
            if self.servers[name].standing is not ServerStanding.DOWN:
                return name
        return None


def state_id(state: TokenState | None) -> StateId:
    """Which proposal it is; `NO_STATE` for none."""
    return NO_STATE if state is None else StateId(state.term, state.version)


def state_head(state: TokenState) -> StateHead:
    """All but the sessions, as it travels and is kept."""
    servers = {name: ServerLine(one.standing.value, one.life, one.since) for name, one in state.servers.items()}
    return StateHead(state_id(state), state.leader, servers, state.changed)


def state_of(head: StateHead, sessions: Mapping[str, int]) -> TokenState:
    """The state again."""
    servers = {
        name: TokenServer(ServerStanding(line.standing), line.life, line.since)
        for name, line in sorted(head.servers.items())
    }
    return TokenState(head.id.term, head.id.version, head.leader, servers, sessions, head.changed)


def whole_change(state: TokenState) -> StateChange:
    """The change from nothing."""
    return StateChange(state_head(state), None, state.sessions)


def applied(base: TokenState | None, change: StateChange) -> TokenState | None:
    """The state after a change; None: the change is for another base."""
    if change.base is None:
        return state_of(change.head, change.opened)
    if base is None or state_id(base) != change.base:
        return None
    sessions = base.sessions
    if change.opened or change.ended:  # else both states share the same map, however large it is
        sessions = {**base.sessions, **change.opened}
        for one in change.ended:
            sessions.pop(one, None)
    return state_of(change.head, sessions)


@lru_cache(maxsize=ORDERS_MAX)
def _order(names: tuple[NodeName, ...], token: str) -> tuple[NodeName, ...]:
    """Rendezvous hashing: a server that comes or goes moves its own tokens only."""

    def weight(name: NodeName) -> bytes:
        return blake2b(token.encode(), digest_size=8, key=name.encode()).digest()

    return tuple(sorted(names, key=weight, reverse=True))
