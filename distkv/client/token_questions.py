"""The requests about tokens: to frames, and what their replies mean.

Knows: the fields of these replies, as clients get them.  Does not know sessions (`holding`), nor how anything travels.

Invariant: as in `questions`: what `read` returns was checked; a reply that is nonsense raises `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from distkv.client.holding_news import SessionQuestion, SessionRequest
from distkv.client.questions import Question, Repeat
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
