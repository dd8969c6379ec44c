"""What the thread and the task that keep a session have in common: which node is next, what is sent to it, what came.

Knows: the turn of the addresses, which question an answer belongs to, and what is sent for one.  Does not know sockets,
threads or tasks (`session_thread`, `session_task`), nor what is asked (`holding`).

Invariant: no address is tried again before all others were, nor at once when all were in vain.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs

from distkv.client.addresses import Address, Reach
from distkv.client.boot_clock import STEP_S, boot_ms
from distkv.client.holding import Holding
from distkv.client.holding_news import SessionQuestion, SessionRequest
from distkv.client.protocol import Answered, Backoff, read_answer
from distkv.client.questions import Question, Repeat
from distkv.errors import DistkvError
from distkv.model.fence import FENCE_MAX
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields, read_flag, read_int, read_list, read_seconds
from distkv.wire.token_fields import read_session, read_token
from distkv.wire.token_replies import SessionClosed, SessionKept, SessionOpened, TokenDone, TokenGranted, TokenReply
from distkv.wire.token_requests import (
    TTL_S_MAX,
    TokenAcquire,
    TokenClose,
    TokenData,
    TokenKeep,
    TokenOpen,
    TokenRelease,
)
from distkv.wire.values import pack_value

TTL_MS: Final = 15_000
"""Before the servers have said theirs."""


class SessionTalk:
    """Of one session, over as many connections as it takes."""

    def __init__(self, reach: Reach, holding: Holding) -> None:
        self.holding = holding
        self._reach: Final = reach
        self._turn = 0
        self._pauses: Final = Backoff()
        self._asked: Final = dict[object, Question[TokenReply]]()
        """What is under way on this connection."""

    @property
    def address(self) -> Address:
        """Whose turn it is."""
        return self._reach.addresses[self._turn % len(self._reach.addresses)]

    @property
    def connect_s(self) -> float:
        """So long it is tried: a session has less time than its client."""
        return min(self._reach.connect_s, max(0.2, (self.holding.ttl_ms or TTL_MS) / 8000))

    @property
    def wait_ms(self) -> int:
        """So long nothing is to be done, if nothing happens before."""
        wake_ms = self.holding.wake_ms()
        return 0 if wake_ms is None else max(1, min(int(STEP_S * 1000), wake_ms - boot_ms()))

    def next_address(self) -> float:
        """The connection broke, or could not be made: how many seconds to pause before the next address is tried."""
        self._asked.clear()
        self._turn += 1
        is_round = self._turn % len(self._reach.addresses) == 0
        return self._pauses.next_s(random.random()) if is_round else 0.0

    def take_questions(self) -> Iterator[tuple[int, Question[TokenReply]]]:
        """What is to be sent, in this order."""
        for one in self.holding.take_questions():
            self._asked[one.id] = session_question(one)
            yield one.id, self._asked[one.id]

    def answers(self, came: Iterable[Answered[Any]], node: str) -> Iterator[tuple[int, TokenReply | DistkvError]]:
        """What `node` answered, with the numbers of the questions."""
        for one in came:
            question = self._asked.pop(one.asker, None)
            if question is not None and one.answer is not None:
                self._pauses.reset()
                answer = one.answer
                yield one.asker, answer if isinstance(answer, DistkvError) else read_answer(question, answer, node)

    def leave_to_parent(self) -> None:
        """In a child: whatever the parent's session was doing is none of ours."""
        self.holding = Holding()


def session_question(question: SessionQuestion) -> Question[TokenReply]:
    """A question of a session, as it is sent. It is never repeated by who sends it: the session does that itself."""
    read, request = _READERS[type(question.request)], question.request
    return Question(lambda seq: encode_request(_numbered(request, seq)), read, Repeat.NEVER)


# -- inside -------------------------------------------------------------------------------------------------------


def _numbered(request: SessionRequest, seq: int) -> SessionRequest:
    return attrs.evolve(request, seq=seq)


def _opened(reply: Fields) -> TokenReply:
    return SessionOpened(read_session(reply.get("session")), _ttl_ms(reply), read_int(reply, "version", FENCE_MAX))


def _closed(reply: Fields) -> TokenReply:
    return SessionClosed(read_session(reply.get("session")))


def _kept(reply: Fields) -> TokenReply:
    lost = tuple([read_token(name, "lost") for name in read_list(reply.get("lost"), "lost")])
    return SessionKept(read_int(reply, "version", FENCE_MAX), _ttl_ms(reply), lost)


def _granted(reply: Fields) -> TokenReply:
    epoch, counter = read_int(reply, "epoch", FENCE_MAX), read_int(reply, "counter", FENCE_MAX)
    data = reply.get("data")
    return TokenGranted(
        read_token(reply.get("token")),
        epoch,
        counter,
        read_int(reply, "version", FENCE_MAX),
        read_flag(reply, "shared"),
        None if data is None else pack_value(data),
        read_flag(reply, "keep_data"),
    )


def _done(_: Fields) -> TokenReply:
    return TokenDone()


def _ttl_ms(reply: Fields) -> int:
    return int(1000 * read_seconds(reply, "ttl", TTL_S_MAX))


_READERS: Final[dict[type[SessionRequest], Callable[[Fields], TokenReply]]] = {
    TokenOpen: _opened,
    TokenClose: _closed,
    TokenKeep: _kept,
    TokenAcquire: _granted,
    TokenRelease: _done,
    TokenData: _done,
}
