"""The common state of the token servers: one small document that is replaced, version by version.

Knows: what is in it, which server a token belongs to, and the difference between two versions.
Does not know how the servers agree on a version (`consensus`), nor what they do with one.

Invariant: a document never changes; of two that are in effect the one of the higher version came later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.token_states import NO_STATE, StateChange, StateHead, StateId, TokenServer

ORDERS_MAX: Final = 4096
"""Of so many tokens the order of the servers is kept: one request asks for it several times."""


SERVING: Final = (ServerStanding.BOOTING, ServerStanding.READY)


@attrs.frozen(slots=True)
class TokenState:
    """One version of the common state."""

    term: int
    version: int
    leader: NodeName
    servers: Mapping[NodeName, TokenServer]
    """All that have to do with it, by name: those of the lists, and those that are about to join."""
    sessions: Mapping[str, int]
    """The ttl of each open session, in milliseconds."""
    changed: int
    """The version in which a server last changed: what clients are told, and answer to."""
    list: tuple[NodeName, ...] = attrs.field()
    """The list in force, by name."""
    next: tuple[NodeName, ...] = ()
    """The list that is to take its place; empty: there is none. Meanwhile all needs a majority of each."""
    names: tuple[NodeName, ...] = attrs.field(init=False, eq=False, repr=False)
    """Of the servers. Kept, because each request asks several times whose a token is."""

    @list.default
    def _list(self) -> tuple[NodeName, ...]:
        return tuple(self.servers)

    @names.default
    def _names(self) -> tuple[NodeName, ...]:
        return tuple(self.servers)

    @property
    def lists(self) -> tuple[tuple[NodeName, ...], ...]:
        """Those of which a majority is needed."""
        return (self.list, self.next) if self.next else (self.list,)

    @property
    def lasting(self) -> tuple[NodeName, ...]:
        """Who may begin to serve: whoever is in the last of the lists."""
        return self.next or self.list

    def order(self, token: str) -> Iterator[NodeName]:
        """The servers in the order in which this token comes to them, which is another one for each token."""
        return iter(token_order(self.names, token))

    def server_of(self, token: str) -> NodeName | None:
        """Who is responsible for a token: the first in its order that serves, or is about to."""
        for name in token_order(self.names, token):
            if self.servers[name].standing in SERVING:
                return name
        return None


def has_majority(lists: Iterable[Collection[NodeName]], names: Collection[NodeName]) -> bool:
    """Whether these are a majority of each list (docs/protocol, QUORUM-14)."""
    return all(sum(name in names for name in one) > len(one) // 2 for one in lists)


def state_id(state: TokenState | None) -> StateId:
    """Which proposal it is; `NO_STATE` for none."""
    return NO_STATE if state is None else StateId(state.term, state.version)


def state_head(state: TokenState) -> StateHead:
    """All but the sessions, as it travels and is kept."""
    return StateHead(state.term, state.version, state.leader, state.servers, state.changed, state.list, state.next)


def state_of(head: StateHead, sessions: Mapping[str, int]) -> TokenState:
    """The state again."""
    servers = dict(sorted(head.servers.items()))
    lists = head.list or tuple(servers), head.next
    return TokenState(head.term, head.version, head.leader, servers, sessions, head.changed, *lists)


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
def token_order(names: Collection[NodeName], token: str) -> tuple[NodeName, ...]:
    """In which a token comes to these servers. Rendezvous hashing: one that comes or goes moves its own tokens only."""

    def weight(name: NodeName) -> bytes:
        return blake2b(token.encode(), digest_size=8, key=name.encode()).digest()

    return tuple(sorted(names, key=weight, reverse=True))
