"""What watches of tokens are told by one server: the items that changed, as soon as some have.

Knows: in which order tokens changed last, and the calls that wait for a change.  Does not know the tokens.

Invariant: of each token only the last change counts, so what is told is the newest item. Tokens that are known are
never left out; of those that became free and are not known any more the last `CHANGES_MAX` / 2 at least are told. Who
missed more, or asks for the first time, is told all that there is, and that it is all. Only tokens of this server's
part are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.serving.part import TokenPart
from distkv.core.tokens.serving.served_token import ServedToken
from distkv.model.event import NodeName
from distkv.wire.token_messages import WatchedTokens

CHANGES_MAX: Final = 20_000
ITEMS_AT_ONCE: Final = 200
WATCHES_MAX: Final = 1000


class TokenWatches:
    """Positions count the changes since the start, from `first` on: those of an earlier start are not known."""

    def __init__(
        self,
        first: int,
        me: NodeName,
        part: TokenPart,
        tokens: Mapping[str, ServedToken],
    ) -> None:
        self._first = first
        """What changed before that is not all known."""
        self._position = first
        self._me: Final = me
        self._part: Final = part
        self._tokens: Final = tokens
        self._changes: Final = dict[str, int]()
        """Of each token that is known, and of some that were, the position of the last change; rising."""
        self._gone = 0
        """How many changes were of tokens that are not known any more."""
        self.waiting: Final = dict[CallKey, tuple[str, int]]()
        """Of each watch its prefix, and up to which position it knows all; only read."""

    @property
    def is_full(self) -> bool:
        return len(self.waiting) >= WATCHES_MAX

    def touched(self, token: str) -> None:
        """A token changed."""
        self._position += 1
        self._changes.pop(token, None)
        self._changes[token] = self._position
        self._gone += token not in self._tokens
        if self._gone > CHANGES_MAX:
            for name in [name for name in self._changes if name not in self._tokens][: CHANGES_MAX // 2]:
                self._first = max(self._first, self._changes.pop(name))
            self._gone = CHANGES_MAX // 2

    def wait(self, call: CallKey, prefix: str, position: int) -> None:
        """Somebody watches, and knows all up to a position; 0: nothing."""
        is_ours = self._first <= position <= self._position
        self.waiting[call] = prefix, position if is_ours else 0

    def call_gone(self, call: CallKey) -> None:
        """He does not any more."""
        self.waiting.pop(call, None)

    def take(self, *, is_whole: bool) -> list[tuple[CallKey, WatchedTokens]]:
        """What there is to tell; who is told is to ask again. Whoever knows nothing waits until `is_whole` says that
        this server knows all of its part."""
        news = list[tuple[CallKey, WatchedTokens]]()
        for call, (prefix, position) in self.waiting.items():
            if position < self._position and (position or is_whole):
                found = self._news(prefix, position)
                if found.items or found.is_first:
                    news.append((call, found))
                else:
                    self.waiting[call] = prefix, found.position
        for call, _ in news:
            del self.waiting[call]
        return news

    def _news(self, prefix: str, position: int) -> WatchedTokens:
        names = list[str]()
        for name in reversed(self._changes):  # the newest first: who knows nearly all costs little
            if self._changes[name] <= position:
                break
            if name.startswith(prefix) and self._part.is_mine(name) and (position or name in self._tokens):
                names.append(name)
        names.reverse()
        items = tuple([(self._tokens.get(name) or ServedToken(name)).item(self._me) for name in names[:ITEMS_AT_ONCE]])
        is_last = len(names) <= ITEMS_AT_ONCE
        end = self._position if is_last else self._changes[names[ITEMS_AT_ONCE - 1]]
        return WatchedTokens(items, end, is_first=position == 0, is_last=is_last)
