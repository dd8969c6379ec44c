"""Handing a part over to a server that boots: the tokens go in pieces, each when the one before was taken.

Knows: which names are to go to whom, how far that is, and the questions that carry it.  Does not know the tokens.

Invariant: a piece has no more than `PIECE_MAX` tokens and not many more bytes than `PIECE_BYTES`; the last one, which
may be empty, says so. Nothing is forgotten here before all is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from distkv.core.tokens.questions import Questions
from distkv.model.event import NodeName
from distkv.wire.declared import pack
from distkv.wire.token_messages import TakeTokens, TokenResult
from distkv.wire.token_replies import TokenDone
from distkv.wire.token_slots import TokenRecord

PIECE_MAX: Final = 500
PIECE_BYTES: Final = 256 << 10


@attrs.define(slots=True)
class Giving:
    """To one server."""

    boot: int
    is_whole: bool
    """Whether this server knows all of what it gives."""
    names: list[str]
    """Which are to go."""
    piece: int = 0
    sent: int = 0
    """How many are in the pieces up to this one."""

    @property
    def is_done(self) -> bool:
        """Whether the last piece is the one that is under way, or was taken."""
        return self.sent == len(self.names)


class TokenHandOver:
    """All that is under way. All times are milliseconds."""

    def __init__(self, questions: Questions, record: Callable[[str, int], TokenRecord | None]) -> None:
        self._questions: Final = questions
        self._record: Final = record
        self._to: Final = dict[NodeName, Giving]()

    @property
    def peers(self) -> list[NodeName]:
        """To whom this server hands over."""
        return list(self._to)

    def names(self) -> list[str]:
        """Of all that is under way."""
        return [name for one in self._to.values() for name in one.names]

    def giving(self, name: NodeName) -> Giving | None:
        """What goes to one of them."""
        return self._to.get(name)

    def begin(self, name: NodeName, boot: int, names: Iterable[str], now_ms: int, *, is_whole: bool) -> None:
        """These are to go."""
        self._to[name] = Giving(boot, is_whole, list(names))
        self._send_piece(name, now_ms)

    def end(self, name: NodeName) -> None:
        """It is done, or no longer wanted."""
        self._to.pop(name, None)

    def clear(self) -> None:
        self._to.clear()

    def answered(self, name: NodeName, result: TokenResult, now_ms: int) -> bool:
        """Of the last piece that was sent; whether all is handed over. What was not taken is not under way any more."""
        giving = self._to[name]
        if not isinstance(result, TokenDone):
            self.end(name)
            return False
        if giving.is_done:
            self.end(name)
            return True
        self._send_piece(name, now_ms)
        return False

    def _send_piece(self, name: NodeName, now_ms: int) -> None:
        giving = self._to[name]
        self._questions.ask(name, self._take_piece(giving, now_ms), now_ms, giving)

    def _take_piece(self, giving: Giving, now_ms: int) -> TakeTokens:
        giving.piece += 1
        found, size = list[TokenRecord](), 0
        while giving.sent < len(giving.names) and len(found) < PIECE_MAX and size < PIECE_BYTES:
            one = self._record(giving.names[giving.sent], now_ms)
            giving.sent += 1
            if one is not None:
                found.append(one)
                size += len(pack(one))
        return TakeTokens(giving.boot, giving.piece, tuple(found), giving.is_done, giving.is_whole)
