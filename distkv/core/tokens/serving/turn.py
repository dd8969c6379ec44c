"""One step of a token server: the time, what it may do at this moment, and where what it decides goes.

Knows: how a decision leaves, and what the server knows of the others.  Does not know who decides.

Invariant: what the parts of a server want done goes through the turn; none of them calls the server around it. What a
turn allows holds for this moment only.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.effects import TokenEffects
from distkv.core.tokens.known_servers import OwnMap, map_of
from distkv.core.tokens.state import TokenState
from distkv.model.event import NodeName
from distkv.wire.token_messages import TellLoss, TokenMap, TokenResult


class AnswersNodes(Protocol):
    """Where answers to nodes go (`Questions`)."""

    def answer(self, call: CallKey, result: TokenResult, changed: int, *, waits: bool = True) -> None:
        """Answer a question; nothing happens if nobody waits for that any more."""

    def withdraw(self, call: CallKey) -> None:
        """An answer that was given is not true any more."""


@attrs.define(slots=True)
class ServingTurn:
    """What each part of a server is handed with what happens."""

    now_ms: int
    """Milliseconds of a clock that goes on while the machine sleeps."""
    wall: float
    """Seconds since 1970, for people."""
    may_grant: bool
    """Whether the server may grant what is its part now."""
    changed: int
    """The newest change of servers that it goes by; 0: it knows none."""
    map: TokenMap
    """What it tells of the servers."""
    nodes: AnswersNodes
    effects: TokenEffects
    touched: dict[str, None] = attrs.field(factory=dict)
    """The tokens that have changed; of them watches are told."""
    losses: list[TellLoss] = attrs.field(factory=list)
    """What the leader is to tell sessions: that a token was taken from them."""

    def answer(self, call: CallKey, result: TokenResult, *, waits: bool = True) -> None:
        """Answer a node. `waits`: see `ServiceTurn.tell`."""
        self.nodes.answer(call, result, self.changed, waits=waits)

    def withdraw(self, call: CallKey) -> None:
        """What a call was answered is not true any more."""
        self.nodes.withdraw(call)

    def note(self, id: str, **fields: object) -> None:
        """Something worth counting."""
        self.effects.turn.note(id, **fields)


class ServingTurns:
    """What a turn begins with. All times are milliseconds."""

    def __init__(
        self, me: NodeName, authority: Authority, nodes: AnswersNodes, effects: TokenEffects, now_ms: int
    ) -> None:
        self.state: TokenState | None = None
        """The common state by which the server goes."""
        self.quiet_ms = now_ms
        """Before that nothing is granted: who waited asks again, and what is on its way arrives."""
        self.wall = 0.0
        self.sure_ms = 0
        """Until then what it may do changes by what the servers agree on only."""
        self.are_any = True
        """Whether one began since that was last said to be false."""
        self.map = map_of(None, me, is_sure=False)
        """What the last one had."""
        self._me: Final = me
        self._authority: Final = authority
        self._nodes: Final = nodes
        self._effects: Final = effects
        self._own_map: Final = OwnMap(me)

    @property
    def leader(self) -> NodeName:
        """Who leads, as far as this node knows."""
        return self._me if self.state is None else self.state.leader

    def begin(self, now_ms: int) -> ServingTurn:
        """Something happens."""
        is_sure = now_ms < self._authority.grants_until_ms
        changed = 0 if self.state is None else self.state.changed
        self.map, self.are_any = self._own_map.of(self.state, is_sure=is_sure), True
        may_grant = is_sure and self.quiet_ms <= now_ms
        return ServingTurn(now_ms, self.wall, may_grant, changed, self.map, self._nodes, self._effects)
