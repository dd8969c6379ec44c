"""What a session holds: as its client says it, as servers keep it, and as it is shown.

Knows: the kinds that bodies about tokens share.  Does not know requests, nor who says what to whom.

Invariant: as in `declared`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from distkv.model.fence import FENCE_MAX, TOKEN_BYTES_MAX, Fence, GrantNumber
from distkv.wire import packing
from distkv.wire.declared import Bounds, Declared, Time
from distkv.wire.fields import Fields, bad, read_flag, read_int, read_list
from distkv.wire.token_fields import DATA_BYTES_MAX, SESSION, raw_field, read_data, read_token

HELD_MAX: Final = 10_000
"""How many tokens one session may hold."""
HOLDERS_MAX: Final = 100_000

TokenName: TypeAlias = Annotated[str, Bounds(min_length=1, max_length=TOKEN_BYTES_MAX)]
"""A class with such a field calls `check_tokens`."""
SessionName: TypeAlias = Annotated[str, Bounds(pattern=rf"\A{SESSION}\Z")]
"""What `token_open` gave."""
FenceNumber: TypeAlias = Annotated[int, Bounds(ge=0, le=FENCE_MAX)]
PackedData: TypeAlias = Annotated[bytes, Bounds(max_length=DATA_BYTES_MAX)]
"""Packed, as the store's values are."""


def check_tokens(*names: str) -> None:
    """Whether these are names of tokens; their kind has looked at their length.

    Raises:
        DecodeError: one is none.
    """
    text = "".join(names)
    if not (text.isascii() and text.isprintable()):  # it costs nothing, and is false for few
        for name in names:
            read_token(name)


class HeldToken(Declared, array_like=True):
    """A token that a session says it holds."""

    token: TokenName
    epoch: FenceNumber
    counter: FenceNumber
    is_shared: bool
    data: PackedData | None = None
    change: FenceNumber = 0
    """The number of the newest change that the session made to it."""
    keeps_data: bool = False
    """Whether the data stays when nobody holds the token."""

    @property
    def fence(self) -> Fence:
        return Fence(0, self.epoch, self.counter, self.token)


class ShownHolder(Declared, array_like=True):
    """Who holds a token, as clients see it."""

    session: SessionName
    is_shared: bool
    epoch: FenceNumber
    counter: FenceNumber
    since: Time
    """Seconds since 1970, by the clock of the server that granted it: for people."""

    @property
    def number(self) -> GrantNumber:
        return GrantNumber(self.epoch, self.counter)


class TokenHolder(ShownHolder, array_like=True):
    """The same, as servers keep it."""

    change: FenceNumber = 0
    """The number of the newest change that it made to the data."""

    @property
    def shown(self) -> ShownHolder:
        return ShownHolder(self.session, self.is_shared, self.epoch, self.counter, self.since)


def read_held(value: object, frame: bytes) -> tuple[HeldToken, ...]:
    """The tokens that a client says it holds; `frame` is the request's, which is looked into where there is data."""
    found = read_list(value, "held")
    if len(found) > HELD_MAX:
        raise bad("held", f"a list of at most {HELD_MAX} tokens", value)
    if not any(type(one) is dict and "data" in one for one in found):
        return tuple([_held(one, None) for one in found])
    parts = packing.split_array(raw_field(frame, "held"))
    return tuple([_held(one, part) for one, part in zip(found, parts, strict=True)])


def _held(one: object, part: bytes | None) -> HeldToken:
    if type(one) is not dict:
        raise bad("held", "made of maps", one)
    fields: Fields = one
    epoch, counter = read_int(fields, "epoch", FENCE_MAX), read_int(fields, "counter", FENCE_MAX)
    data = read_data(part) if part is not None and "data" in fields else None
    change = read_int(fields, "change", FENCE_MAX) if "change" in fields else 0
    flags = read_flag(fields, "shared"), read_flag(fields, "keep_data")
    return HeldToken(read_token(fields.get("token")), epoch, counter, flags[0], data, change, flags[1])
