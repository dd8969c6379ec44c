"""Fences: the numbers by which the store tells a token's later holder from an earlier one.

Knows: what a fence and the number of a grant are, their texts, which names a token may have.  Does not know who hands
fences out (core.tokens), nor which writes are refused for their fence (core.conditions).

Invariant: fences have one total order, and so have the numbers of one token's grants; an event without a fence has
`NO_FENCE`, which is below all others.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

FENCE_MAX: Final = 2**62 - 1
"""The highest base, epoch and counter."""
TOKEN_BYTES_MAX: Final = 255


class GrantNumber(NamedTuple):
    """Which grant of a token: a later grant has a higher number. Sessions that share the token have one each."""

    epoch: int
    """Of its server, when it granted: not below that of any earlier server of the token."""
    counter: int
    """Above all that the server gave before in this epoch."""

    def __str__(self) -> str:
        return f"{self.epoch}.{self.counter}"


NO_GRANT: Final = GrantNumber(0, 0)
"""Below the numbers of all grants."""


class Fence(NamedTuple):
    """What orders an event before its tock does. Compared field by field (docs/protocol, FENCE-1)."""

    base: int
    """How often fences were lifted on this path (`refence`)."""
    epoch: int
    counter: int
    token: str
    """Empty: no token holds the path, but its base stays."""

    @property
    def number(self) -> GrantNumber:
        """Of the grant."""
        return GrantNumber(self.epoch, self.counter)

    @property
    def holds(self) -> bool:
        """Whether only this token may write the path."""
        return bool(self.token)

    def __str__(self) -> str:
        return f"{self.token}:{self.epoch}.{self.counter}"


NO_FENCE: Final = Fence(0, 0, 0, "")

_TEXT: Final = re.compile(r"(.+):([0-9]{1,19})\.([0-9]{1,19})", re.DOTALL)


def is_token_name(text: str) -> bool:
    """1 to 255 bytes of text without control characters."""
    if not text:
        return False
    if not text.isprintable() and any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text):  # the first is quick
        return False
    try:
        return len(text.encode()) <= TOKEN_BYTES_MAX
    except UnicodeEncodeError:  # a lone surrogate
        return False


def read_fence_text(text: str) -> Fence | None:
    """NAME:EPOCH.COUNTER, of base 0; None when it is not that."""
    parts = _TEXT.fullmatch(text)
    if parts is None or not is_token_name(parts[1]):
        return None
    epoch, counter = int(parts[2]), int(parts[3])
    return Fence(0, epoch, counter, parts[1]) if max(epoch, counter) <= FENCE_MAX else None
