"""What servers ask about sessions, at the leader: whether a client counts on what was granted to it.

Knows: the questions, and which of them a client has had the time to answer.  Does not know what follows.

Invariant: that a session does not hold a token is said only after a keep-alive which its client sent when it had an
answer from after the question. What a client sent before may have crossed with the grant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Final

import attrs

from distkv.core.ground.calls import CallKey
from distkv.wire.token_messages import KeepSession

TURNS: Final = 8
"""So many answers are remembered: a session may be kept by several processes."""


@attrs.define(slots=True)
class HoldingDoubt:
    """Of one token."""

    call: CallKey
    told_turns: deque[int] = attrs.field(factory=lambda: deque(maxlen=TURNS))
    """Which keep-alives were answered since, of the last ones."""


class HoldingDoubts:
    """By session and token."""

    def __init__(self) -> None:
        self._doubts: Final = dict[str, dict[str, HoldingDoubt]]()

    def ask(self, call: CallKey, session: str, token: str) -> CallKey | None:
        """A server asks; the call that asked the same before, which waits in vain now."""
        doubts = self._doubts.setdefault(session, {})
        old, doubts[token] = doubts.get(token), HoldingDoubt(call)
        return None if old is None or old.call == call else old.call

    def is_new(self, session: str) -> bool:
        """Whether the client is to be answered at once, so that it says again what it holds."""
        return any(not one.told_turns for one in self._doubts.get(session, {}).values())

    def told(self, session: str, turn: int) -> None:
        """A keep-alive is answered: the next one says what counts."""
        for one in self._doubts.get(session, {}).values():
            one.told_turns.append(turn)

    def heard(self, asked: KeepSession) -> Iterator[tuple[CallKey, bool]]:
        """A client says what it holds: the questions that this answers."""
        doubts = self._doubts.get(asked.session, {})
        for token, one in list(doubts.items()):
            if token in asked.held or is_after(asked, one.told_turns, is_numbered=bool(asked.turn)):
                del doubts[token]
                yield one.call, token in asked.held
        if not doubts:
            self._doubts.pop(asked.session, None)

    def end(self, session: str) -> list[CallKey]:
        """The session is over; what was asked about it."""
        return [one.call for one in self._doubts.pop(session, {}).values()]

    def take_calls(self) -> list[CallKey]:
        """All; none is left."""
        found = [one.call for some in self._doubts.values() for one in some.values()]
        self._doubts.clear()
        return found


def is_after(asked: KeepSession, told: Collection[int], *, is_numbered: bool) -> bool:
    """Whether the client sent this keep-alive when it had taken an answer to one of those that were `told`. Else what
    it lists may be older than a grant that is on its way to it. Without numbers (`is_numbered`) any later one counts.
    """
    return asked.heard in told if asked.heard else bool(told) and not asked.turn and not is_numbered
