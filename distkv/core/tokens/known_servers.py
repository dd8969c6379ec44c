"""What a node knows of the token servers, which it may have heard from any of them.

Knows: the newest map that was heard, when a server was heard last that could grant.  Does not know who is asked, nor
calls.

Invariant: a map is replaced by a newer one only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from distkv.core.jump_limit import JumpLimit
from distkv.core.tokens.state import SERVING, TokenState
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.token_messages import TokenMap
from distkv.wire.token_replies import ServersAgreed, TokenServersShown


class KnownServers:
    """All times are milliseconds."""

    def __init__(self, names: tuple[NodeName, ...]) -> None:
        self._settings: Final = names
        self._listed: tuple[NodeName, ...] = ()
        self.sure_ms = -(2**62)
        """When a server was heard last that may grant."""
        self.changed = 0
        """The newest change of servers that is known; 0: none."""
        self._map: TokenMap | None = None
        self._versions: Final = JumpLimit()
        self.state: TokenState | None = None
        """What the newest map says of servers; it knows who serves a token."""

    @property
    def names(self) -> tuple[NodeName, ...]:
        """All that may know who serves: those of the map, of the store, and of the settings."""
        return tuple(dict.fromkeys([*(() if self._map is None else self._map.servers), *self._listed, *self._settings]))

    def listed(self, names: Iterable[NodeName]) -> None:
        """The list that the store has."""
        self._listed = tuple(names)

    @property
    def leader(self) -> NodeName | None:
        return None if self._map is None else self._map.leader

    @property
    def up(self) -> list[NodeName]:
        """Those that are responsible for something."""
        servers = {} if self._map is None else self._map.servers
        return [name for name, server in servers.items() if server.standing in SERVING]

    def shown(self, *, is_sure: bool) -> TokenServersShown | None:
        """For a client; `is_sure`: whether a majority answers."""
        found = self._map
        if found is None:
            return None
        servers = {name: (one.standing.value, one.life) for name, one in found.servers.items()}
        leader = found.leader if is_sure else None
        lists = found.list or tuple(servers), found.next
        agreed = ServersAgreed(leader, found.term, found.version, found.sessions, *lists)
        return TokenServersShown(servers, agreed)

    def heard(self, map: TokenMap, now_ms: int) -> bool:
        """A server says what it knows; whether it is of use: who is to be asked may have changed. What is too far ahead
        is not believed at once (docs/protocol, JUMP-2)."""
        if map is self._map:  # the own one, after nearly every input
            self.sure_ms = now_ms if map.is_sure else self.sure_ms
            return False
        known = 0 if self._map is None else self._map.version
        if map.changed > map.version or not self._versions.take(map.version, known):
            return False
        if map.is_sure:
            self.sure_ms = now_ms
        old = self._map
        # Versions go on over a reset; terms do not, if the servers that were asked for it had lost their disks.
        if old is not None and (map.version, map.term) <= (old.version, old.term):
            return False
        self._map, self.changed = map, map.changed
        if old is None or old.servers != map.servers or self.state is None:
            self.state = TokenState(map.term, map.version, map.leader, map.servers, {}, map.changed)
        return old is None or old.leader != map.leader or old.servers != map.servers

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._versions.check()
        must((self._map is None) == (self.state is None), "whose a token is follows from the map")


def map_of(state: TokenState | None, me: NodeName, *, is_sure: bool) -> TokenMap:
    """What a server tells of the common state; `is_sure` says whether it may grant now."""
    if state is None:
        return TokenMap(0, 0, 0, me, {}, 0, is_sure=False)
    numbers = (state.term, state.version, state.changed)
    return TokenMap(*numbers, state.leader, state.servers, len(state.sessions), is_sure, state.list, state.next)


class OwnMap:
    """What one server tells: it is wanted after every input, and hardly ever another one than before."""

    def __init__(self, me: NodeName) -> None:
        self._me: Final = me
        self._state: TokenState | None = None
        self._map = map_of(None, me, is_sure=False)

    def of(self, state: TokenState | None, *, is_sure: bool) -> TokenMap:
        """See `map_of`."""
        if state is not self._state or is_sure != self._map.is_sure:
            self._state, self._map = state, map_of(state, self._me, is_sure=is_sure)
        return self._map
