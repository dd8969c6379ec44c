"""What a user asks of a token, and what became of it: what both clients share.

Knows: the arguments of `token()`, and the news of a session that holds one token.  Does not know connections.

Invariant: a wish that exists can be sent. A token that was lost is never held again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

import attrs

from distkv.client import arguments
from distkv.client.holding import LET_GO_MS, Holding
from distkv.client.holding_news import (
    DataAnswered,
    SessionEnded,
    SessionLives,
    SessionNews,
    TokenObtained,
    TokenRefused,
    TokenReleased,
    TokenTaken,
)
from distkv.client.token_arguments import as_token
from distkv.errors import DistkvError, TooLargeError, UnreachableError
from distkv.model.fence import Fence
from distkv.wire.token_errors import TokenLostError
from distkv.wire.token_fields import DATA_BYTES_MAX
from distkv.wire.token_requests import TTL_S_MAX
from distkv.wire.values import pack_value, unpack_value


@attrs.frozen
class TokenWish:
    """The arguments of `token()`."""

    name: str
    is_shared: bool
    data: bytes | None
    """Packed."""
    wait_ms: int | None
    """None: a try."""
    ttl_s: float | None
    keeps_data: bool = False
    """Whether the data, also what is set later, stays when nobody holds the token."""


def as_wish(
    name: object, shared: object, data: object, wait_s: object, ttl_s: object, keep_data: object = False
) -> TokenWish:
    """A wish.

    Raises:
        RequestError: an argument is none that a node takes.
        BadValueError, TooLargeError: the data cannot be stored.
    """
    token = as_token(name)
    arguments.check_flag("shared", shared)
    arguments.check_flag("keep_data", keep_data)
    wait = arguments.as_seconds("wait_s", wait_s, 0, arguments.PATIENCE_S_MAX)
    ttl = arguments.as_seconds("ttl_s", ttl_s, 0, TTL_S_MAX)
    wait_ms = None if wait is None else int(wait * 1000)
    return TokenWish(token, shared is True, pack_data(data), wait_ms, ttl, keep_data is True)


def pack_data(data: object) -> bytes | None:
    """The data of a token, packed; None: it has none.

    Raises:
        BadValueError, TooLargeError: it cannot be stored.
    """
    packed = None if data is None else pack_value(data)
    if packed is not None and len(packed) > DATA_BYTES_MAX:
        raise TooLargeError(f"the data of a token has {len(packed)} bytes when packed; the limit is {DATA_BYTES_MAX}")
    return packed


def new_holding(
    wish: TokenWish, reply_s: float, now_ms: int, *, grace_s: float = 0, let_go_ms: int = LET_GO_MS
) -> Holding:
    """A session that opens, and asks for the token."""
    holding, patience_ms = Holding(ttl_s=wish.ttl_s, grace_s=grace_s, let_go_ms=let_go_ms), int(reply_s * 1000)
    holding.open(wish.wait_ms or 0, patience_ms, now_ms)
    holding.acquire(
        wish.name, is_shared=wish.is_shared, data=wish.data, wait_ms=wish.wait_ms, patience_ms=patience_ms,
        now_ms=now_ms, keeps_data=wish.keeps_data,
    )  # fmt: skip
    return holding


class TokenNews:
    """What a session has told of its one token."""

    def __init__(self) -> None:
        self.fence: Fence | None = None
        """None: it was not obtained yet."""
        self.refusal: DistkvError | None = None
        """Why it is not obtained."""
        self.loss: str | None = None
        """Why it is lost."""
        self.is_over = False
        self._answers: Final = dict[int, DistkvError | None]()

    def take(self, news: Iterable[SessionNews]) -> None:
        """Something happened."""
        for one in news:
            match one:
                case TokenObtained(fence=fence):
                    self.fence = fence
                case TokenRefused(error=error):
                    self.refusal = error
                case TokenTaken(why=why):
                    self.loss = why
                case DataAnswered(number=number, error=error):
                    self._answers[number] = error
                case SessionEnded(error=error):
                    self.is_over = True
                    self.refusal = self.refusal or error
                case SessionLives() | TokenReleased():
                    pass
                case _:
                    assert_never(one)

    def disown(self) -> None:
        """We are a child of the process that has the session."""
        why = UnreachableError("this process is a fork of the one that holds it")
        self.loss = str(why)
        self.take([SessionEnded(why)])

    @property
    def is_decided(self) -> bool:
        """Whether it is known if the token is obtained."""
        return self.fence is not None or self.refusal is not None or self.is_over

    def is_answered(self, number: int) -> bool:
        return number in self._answers or self.is_over

    def check_answer(self, number: int) -> None:
        """Raises what became of a change of data, unless it was stored."""
        error = self._answers.pop(number, None)
        if error is not None:
            raise error

    def lost(self, name: str) -> TokenLostError:
        """What the user is told of a loss."""
        fence = "" if self.fence is None else f" ({self.fence})"
        why = self.loss or "the session could not be kept alive in time"
        return TokenLostError(f"the token {name!r}{fence} is lost: {why}")


def data_value(packed: bytes | None) -> object:
    """What users see."""
    return None if packed is None else unpack_value(packed)


