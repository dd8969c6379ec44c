"""Who asked for another list of token servers, as the leader answers them.

Knows: the calls that wait, and for which list.  Does not know how a list comes into force: it proposes, and looks.

Invariant: a call is answered when its list is in force, when its wait is over, or when another change is under way. The
change goes on, whoever waits: it is forgotten only when this node leads no more before it began, and is asked again.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.serving.turn import ServingTurn
from distkv.errors import BusyError
from distkv.wire.token_errors import TimedOutError
from distkv.wire.token_messages import ChangeServers, TokenResult
from distkv.wire.token_replies import TokenDone

LOOK_MS: Final = 200
"""So often it is looked whether it is done: what it waits for is no version."""
CHANGES_MAX: Final = 100


@attrs.frozen(slots=True)
class ChangeWaiting:
    """One call. The time is milliseconds."""

    question: ChangeServers
    until_ms: int


class ServerChange:
    """All times are milliseconds."""

    def __init__(self, authority: Authority) -> None:
        self._authority: Final = authority
        self._waiting: Final = dict[CallKey, ChangeWaiting]()
        self.due_ms: int | None = None
        """When it is looked next; None: nobody waits. Only read."""

    def asked(self, call: CallKey, question: ChangeServers, turn: ServingTurn) -> None:
        """Somebody wants another list."""
        if len(self._waiting) >= CHANGES_MAX:
            turn.answer(call, BusyError(f"{CHANGES_MAX} wait for a change of the token servers: ask again later"))
            return
        self._waiting[call] = ChangeWaiting(question, turn.now_ms + question.wait_ms)
        self.due_ms = turn.now_ms

    def call_gone(self, call: CallKey) -> None:
        """Nobody waits for the answer."""
        self._waiting.pop(call, None)

    def take_calls(self) -> list[CallKey]:
        """All that wait; they are forgotten here, and are to be answered otherwise."""
        found = list(self._waiting)
        self._waiting.clear()
        return found

    def answer_due(self, turn: ServingTurn, *, leads: bool) -> None:
        """Time passed, or the authority has changed."""
        now_ms = turn.now_ms
        if self.due_ms is None or now_ms < self.due_ms:
            return
        for call, waiting in list(self._waiting.items()):
            result = self._result(waiting, now_ms) if leads else None
            if result is not None:
                del self._waiting[call]
                turn.answer(call, result)
        self.due_ms = now_ms + LOOK_MS if self._waiting else None

    def _result(self, waiting: ChangeWaiting, now_ms: int) -> TokenResult | None:
        servers = waiting.question.servers
        try:
            self._authority.propose_servers(servers)
        except BusyError as error:
            return error
        reason = self._authority.change_waits_for(servers, now_ms)
        if not reason:
            return TokenDone()
        if now_ms < waiting.until_ms:
            return None
        return TimedOutError(f"the change of the token servers goes on; it waits for {reason}")
