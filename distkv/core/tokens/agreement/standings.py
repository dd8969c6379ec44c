"""What each token server becomes in the next version: down, booting, ready or leaving.

Knows: what was heard of each, and what it wants.  Does not know the list, nor who proposes.

Invariant: a server is declared down only when its lease is over on every clock, or when it says itself that it holds
nothing; of those who join, one boots after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from distkv.core.tokens.agreement.beats import Beats
from distkv.core.tokens.agreement.lists import is_leaving
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.state import TokenState
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.declared import evolve
from distkv.wire.token_states import TokenServer

Wish: TypeAlias = tuple[ServerStanding, int]
"""What a server wants, and since which version it has the standing in which it wants that."""


@attrs.frozen(slots=True)
class Standings:
    """Those of the servers in a state that is in effect."""

    settings: ConsensusSettings
    state: TokenState
    beats: Beats
    mine: Wish
    """Of the leader itself."""
    now_ms: int

    def changed(self) -> dict[NodeName, TokenServer]:
        """Who becomes something else. Of those who join one boots after another: else each would ask all sessions what
        the others might have."""
        found = {name: to for name, server in self.state.servers.items() if (to := self._next(name, server))}
        is_booting = any(one.standing is ServerStanding.BOOTING for one in self.state.servers.values())
        joining = [n for n in found if n not in self.state.list and found[n].standing is ServerStanding.BOOTING]
        for late in joining if is_booting else joining[1:]:
            del found[late]
        return found

    def _next(self, name: NodeName, server: TokenServer) -> TokenServer | None:
        """None: it stays what it is. A new life is admitted only after the old one was declared down: that one may
        hang, with a lease."""
        life, wish = self._wish(name, server)
        standing = server.standing
        if standing is ServerStanding.DOWN:
            may_boot = wish is ServerStanding.BOOTING and name in self.state.lasting
            return TokenServer(ServerStanding.BOOTING, life, 0) if may_boot else None
        if self._is_gone(name, server, wish):
            return evolve(server, standing=ServerStanding.DOWN)
        if standing is ServerStanding.BOOTING and wish is ServerStanding.READY and life == server.life:
            return evolve(server, standing=ServerStanding.READY)
        if standing is ServerStanding.READY and is_leaving(self.state, name):
            return evolve(server, standing=ServerStanding.LEAVING)
        return None

    def _is_gone(self, name: NodeName, server: TokenServer, wish: ServerStanding | None) -> bool:
        """Whether a server has no lease any more, or needs none: it has handed over all. Of itself the leader knows at
        once that it forgot what it served."""
        if server.standing is ServerStanding.LEAVING and wish is ServerStanding.BOOTING:
            return True
        if name == self.settings.me:
            return server.standing is ServerStanding.READY and wish is ServerStanding.BOOTING
        return self.now_ms >= self.beats.alive_ms(name, server) + self.settings.long_ms

    def _wish(self, name: NodeName, server: TokenServer) -> tuple[int, ServerStanding | None]:
        """A server's life, and what it wants in the standing that it has."""
        if name == self.settings.me:
            standing, since = self.mine
            return server.life, standing if since == server.since else None
        seen = self.beats.seen.get(name)
        if seen is None or self.now_ms >= seen.heard_ms + self.settings.long_ms:
            return server.life, None
        return seen.life, seen.wish(server)


def next_servers(before: Mapping[NodeName, TokenServer], found: Mapping[NodeName, TokenServer], version: int) -> dict[
    NodeName, TokenServer
]:
    """All of them in a version; who became something else is that since this one."""
    return {
        name: one if before.get(name) is one else evolve(one, since=version)
        for name, one in found.items()
    }
