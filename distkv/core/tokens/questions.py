"""What nodes ask token servers: other nodes by calls, this node itself without them.

Knows: how questions and answers become the bodies of calls, and which of its own questions this node has not answered.
Does not know what they are about.

Invariant: whoever asks hears the answer once, as `calls` promises. What this node asks itself is never written as
bytes, is not lost, and comes when what is being done is done (`own`): nothing is told in the midst of a change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import attrs

from distkv.core.ground.calls import AnswerCame, CallEvent, CallKey, Calls, QuestionCame, QuestionGone
from distkv.core.tokens.effects import TokenEffects
from distkv.errors import DecodeError, NotReadyError, RequestError
from distkv.model.event import NodeName
from distkv.wire.calls import CallMessage
from distkv.wire.token_messages import (
    TokenQuestion,
    TokenResult,
    decode_answer,
    decode_question,
    encode_answer,
    encode_question,
)


@attrs.frozen(slots=True)
class ServerAsked:
    """A node asks this one."""

    call: CallKey
    question: TokenQuestion


@attrs.frozen(slots=True)
class ServerAnswered:
    """A node answers this one."""

    number: int
    peer: NodeName
    result: TokenResult
    changed: int
    """The version of which that node knows."""
    purpose: object
    """What was given when it was asked."""


QuestionEvent: TypeAlias = ServerAsked | ServerAnswered | QuestionGone


class Questions:
    """Those of one node. All times are milliseconds."""

    def __init__(self, me: NodeName, boot: int, effects: TokenEffects, first: int = 0) -> None:
        self._me: Final = me
        self._boot: Final = boot
        self._effects: Final = effects
        self._calls: Final = Calls(boot, effects, first)
        self.wake_ms: Final = self._calls.wake_ms
        """When `woken` has something to do; asked after every input."""
        self._purposes: Final = dict[int, object]()
        """Of each question that is not answered, by its number. Those of own ones are negative, those of calls are
        not."""
        self._last = 0
        self.own: Final = deque[QuestionEvent]()
        """What this node asked or answered itself, to be taken from the left."""

    # -- the asking side

    def ask(self, peer: NodeName, question: TokenQuestion, now_ms: int, purpose: object = None) -> int:
        """Ask a node, this one included; the number of the question."""
        if peer != self._me:
            number = self._calls.ask(peer, encode_question(question), now_ms)
            self._purposes[number] = purpose
            return number
        self._last -= 1
        self._purposes[self._last] = purpose
        self.own.append(ServerAsked(CallKey(peer, self._boot, self._last), question))
        return self._last

    def cancel(self, peer: NodeName, number: int) -> None:
        """The answer is not wanted any more; none will be told."""
        if number not in self._purposes:
            return
        del self._purposes[number]
        if peer != self._me:
            self._calls.cancel(peer, number)
        else:
            self.own.append(QuestionGone(CallKey(peer, self._boot, number)))

    def is_anybody_silent(self, now_ms: int) -> bool:
        """Whether another node, from which an answer is wanted, has said nothing for a while."""
        return any(self._calls.is_silent(peer, now_ms) for peer in self._calls.waits_for())

    # -- the answering side

    def answer(self, call: CallKey, result: TokenResult, changed: int, *, waits: bool = True) -> None:
        """Answer a question; nothing happens if nobody waits for that any more. `changed` is that of `ServerAnswered`,
        `waits` that of `ServiceTurn.tell`."""
        if call.peer != self._me:
            self._calls.answer(call, encode_answer(result, changed), waits=waits)
        elif call.number in self._purposes:
            purpose = self._purposes.pop(call.number)
            self.own.append(ServerAnswered(call.number, call.peer, result, changed, purpose))

    def withdraw(self, call: CallKey) -> None:
        """An answer that was given is not true any more: it is not sent again."""
        self._calls.withdraw(call)

    # -- what comes

    def told(self, sender: NodeName, message: CallMessage, now_ms: int) -> Iterable[QuestionEvent]:
        """A message of another node; what follows from it."""
        return self._read(self._calls.told(sender, message, now_ms))

    def woken(self, now_ms: int) -> Iterable[QuestionEvent]:
        """Time passed."""
        return self._read(self._calls.woken(now_ms))

    # -- inside

    def _read(self, events: Iterable[CallEvent]) -> Iterator[QuestionEvent]:
        for event in events:
            if isinstance(event, QuestionCame):
                try:
                    yield ServerAsked(event.call, decode_question(event.body))
                except DecodeError as error:
                    self._effects.turn.note("token_question_bad", peer=event.call.peer, reason=error.reason)
                    self.answer(event.call, RequestError(str(error)), 0)
            elif isinstance(event, AnswerCame):
                yield self._answered(event)
            elif isinstance(event, QuestionGone):
                yield event

    def _answered(self, came: AnswerCame) -> ServerAnswered:
        try:
            result, changed = decode_answer(came.body)
        except DecodeError as error:
            self._effects.turn.note("token_answer_bad", peer=came.peer, reason=error.reason)
            result, changed = NotReadyError("a token server answered what could not be read: see its log"), 0
        return ServerAnswered(came.number, came.peer, result, changed, self._purposes.pop(came.number, None))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._calls.check()
