"""A seal that adds as many bytes as a real one, and proves as much to an honest machine, without its cost.

Knows: who sealed what, and for whom.  Does not know secrets: whoever knows a start can speak under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.swim.keyring import Keyring
from distkv.swim.seal import HEADER_BYTES, TAG_BYTES, Opened
from distkv.wire.swim_records import DATAGRAM_BYTES_MAX, START_BYTES

_NOBODY: Final = bytes(START_BYTES)
_AROUND: Final = HEADER_BYTES + TAG_BYTES
_PADDING: Final = b"\x0f" + bytes(_AROUND - 2 * START_BYTES - 1)
_START_AT: Final = len(_PADDING)
_RECEIVER_AT: Final = _START_AT + START_BYTES


class SizedSeal:
    """The seal of one node."""

    overhead: Final = _AROUND

    def __init__(self, start: bytes) -> None:
        self._start = start
        self._refused = set[bytes]()

    def close(self, frame: bytes, receiver_start: bytes | None, keys: Sequence[bytes] = ()) -> bytes:  # noqa: ARG002
        return b"".join((_PADDING, self._start, receiver_start or _NOBODY, frame))

    def open(self, data: bytes) -> Opened | str:
        if not _AROUND < len(data) <= DATAGRAM_BYTES_MAX:
            return "size"
        start, receiver = data[_START_AT:_RECEIVER_AT], data[_RECEIVER_AT:_AROUND]
        if start == self._start or start in self._refused:
            return "replay"
        if receiver not in (self._start, _NOBODY):
            return "seal"
        return Opened(data[_AROUND:], start, receiver != _NOBODY)

    def renew(self, keyring: Keyring) -> None:
        """Nothing is sealed with keys."""

    def vouch(self, start: bytes) -> None:
        """Whoever seals is taken at its word."""

    def refuse(self, start: bytes) -> None:
        self._refused.add(start)

    def drop(self, start: bytes) -> None:
        """Nothing is kept of a sender."""

    def check(self) -> None:
        """Nothing is promised."""
