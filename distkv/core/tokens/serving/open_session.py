"""One session, as the leader looks after it: when it was heard, who waits for news of it, what it may not know yet.

Knows: what a keep-alive says of what the session was told.  Does not know who leads, nor how a session begins and ends.

Invariant: a loss is known, and that a token is not held is believed, only when a keep-alive says so which the client
sent after it took an answer from after the question. What a client sent before may have crossed with the grant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import attrs

from distkv.core.ground.calls import CallKey
from distkv.model.fence import Fence
from distkv.model.invariant import must
from distkv.wire.token_messages import KeepSession

TURNS: Final = 8
"""So many answers are remembered: a session may be kept by several processes."""


@attrs.define(slots=True)
class KeepWaiting:
    """A keep-alive that is not answered yet."""

    call: CallKey
    version: int
    until_ms: int
    turn: int


@attrs.define(slots=True)
class LossUntold:
    """A token that was taken from the session."""

    call: CallKey
    fence: Fence
    told_ms: int | None = None
    """When a confirmed answer named it the first time."""
    told_turns: deque[int] = attrs.field(factory=lambda: deque(maxlen=TURNS))
    """The keep-alives to which such an answer was given, of the last ones."""


@attrs.define(slots=True)
class HoldingDoubt:
    """A server asks whether the client counts on a token."""

    call: CallKey
    told_turns: deque[int] = attrs.field(factory=lambda: deque(maxlen=TURNS))
    """Which keep-alives were answered since, of the last ones."""


@attrs.define(slots=True)
class OpenedSession:
    """It is open. All times are milliseconds."""

    id: str
    ttl_ms: int
    heard_ms: int = 0
    """When its client was heard last; what a new leader did not hear counts from its election."""
    is_numbered: bool = False
    """Whether its keep-alives have numbers."""
    is_ending: bool = False
    """Whether its end is proposed."""
    keep: KeepWaiting | None = None
    close: CallKey | None = None
    """Who asked for its end."""
    behind: tuple[int, int] | None = None
    """The version that it was told of, and has not named yet, and when it was told."""
    losses: dict[str, LossUntold] = attrs.field(factory=dict)
    """By token."""
    doubts: dict[str, HoldingDoubt] = attrs.field(factory=dict)
    """By token."""

    @property
    def tag(self) -> str:
        """What it was opened with."""
        return self.id.partition("-")[2]

    def has_news(self, changed: int) -> bool:
        """Whether its client is to be answered at once: of a loss, of a change of servers, or so that it says again
        what it holds."""
        is_doubted = any(not one.told_turns for one in self.doubts.values())
        return bool(self.losses) or is_doubted or (self.keep is not None and self.keep.version != changed)

    def told(self, keep: KeepWaiting, changed: int, now_ms: int) -> None:
        """A keep-alive is answered, with all losses and this change of servers."""
        for loss in self.losses.values():
            loss.told_ms = now_ms if loss.told_ms is None else loss.told_ms
            loss.told_turns.append(keep.turn)
        for doubt in self.doubts.values():
            doubt.told_turns.append(keep.turn)
        if keep.version < changed and self.behind is None:
            self.behind = changed, now_ms

    def lose(self, call: CallKey, fence: Fence) -> CallKey | None:
        """A token was taken from it; the call that asked the same before, which waits in vain now."""
        old = self.losses.get(fence.token)
        loss = self.losses[fence.token] = LossUntold(call, fence)
        if old is not None and old.fence == fence:
            loss.told_ms, loss.told_turns = old.told_ms, old.told_turns
        return None if old is None or old.call == call else old.call

    def doubt(self, call: CallKey, token: str) -> CallKey | None:
        """A server asks whether its client counts on a token; as `lose`."""
        old, self.doubts[token] = self.doubts.get(token), HoldingDoubt(call)
        return None if old is None or old.call == call else old.call

    def refuses(self, asked: KeepSession, now_ms: int) -> bool:
        """Whether its client has had a ttl to say that it took what it was told, and does not. While it does not name a
        version no survey knows what it holds, and nobody gets the tokens of a lost server; while it counts on what it
        lost nobody else can get that."""
        late_ms = now_ms - self.ttl_ms
        is_behind = self.behind is not None and asked.version < self.behind[0] and self.behind[1] < late_ms
        kept = [self.losses[name] for name in asked.held if name in self.losses]
        return is_behind or any(loss.told_ms is not None and loss.told_ms < late_ms for loss in kept)

    def hear(self, asked: KeepSession) -> Iterator[tuple[CallKey, bool]]:
        """Its client says what it holds: the questions that this answers, and how: whether a loss is known, or the
        token is held."""
        self.is_numbered |= bool(asked.turn)
        if self.behind is not None and asked.version >= self.behind[0]:
            self.behind = None
        held = frozenset(asked.held if self.losses or self.doubts else ())
        for token, loss in list(self.losses.items()):
            if token not in held and self._is_after(asked, loss.told_turns):
                del self.losses[token]
                yield loss.call, True
        for token, doubt in list(self.doubts.items()):
            if token in held or self._is_after(asked, doubt.told_turns):
                del self.doubts[token]
                yield doubt.call, token in held

    def take_asked(self) -> list[CallKey]:
        """All that servers asked about it; they are forgotten here."""
        found = [*(one.call for one in self.losses.values()), *(one.call for one in self.doubts.values())]
        self.losses.clear()
        self.doubts.clear()
        return found

    def _is_after(self, asked: KeepSession, told: deque[int]) -> bool:
        """Whether the client sent this keep-alive when it had taken an answer to one of those that were `told`. Else
        what it lists may be older than a grant that is on its way to it. Without numbers any later one counts."""
        return asked.heard in told if asked.heard else bool(told) and not asked.turn and not self.is_numbered

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(bool(one.told_turns) == (one.told_ms is not None) for one in self.losses.values()), "told in a turn")
