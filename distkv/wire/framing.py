"""A byte stream to frames: whole msgpack objects, one after another.

Knows: where a frame ends.  Does not know what is in it (`frames`, `replies`).

Invariant: a bad frame does not disturb the next one, because its end was found without decoding it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distkv.errors import DecodeError, TooLargeError
from distkv.wire import packing

FRAME_BYTES_MAX: Final = 1 << 20
"""The default for requests; whoever reads the answers of a peer allows more."""


class FrameReader:
    """Cuts a byte stream into frames: whole msgpack objects.

    Keeps one unfinished frame of at most `limit` bytes, besides what one `feed` brings. After `feed`, take all frames.
    """

    __slots__ = ("_base", "_data", "_error", "_limit", "_skipper", "_start")

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self._limit = limit
        self._skipper = packing.Skipper()
        self._data: bytes | bytearray = b""
        self._base = 0  # where in the stream _data begins
        self._start = 0  # where in _data the next frame begins
        self._error: TooLargeError | DecodeError | None = None

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self._skipper.feed(data)
        start, self._start = self._start, 0
        self._base += start
        if start == len(self._data):
            self._data = data
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        del self._data[:start]
        self._data += data

    @property
    def is_between_frames(self) -> bool:
        """Whether everything that was fed was taken as frames."""
        return self._start == len(self._data)

    @property
    def left(self) -> int:
        """How many bytes were not taken: of a frame that is not whole, when there is no other."""
        return len(self._data) - self._start

    def __iter__(self) -> Iterator[bytes]:
        """The frames that are whole; raises as `next_frame`."""
        return iter(self.next_frame, None)

    def next_frame(self) -> bytes | None:
        """The next whole frame; None while there is none.

        Raises:
            TooLargeError: the frame has, or will have, more than `limit` bytes.
            DecodeError: the stream is not msgpack. After either the stream has no more frames, only this error.
        """
        if self._error is not None:
            raise self._error
        if self._start == len(self._data):
            return None
        try:
            end = self._skipper.skip()
        except DecodeError as error:
            self._error = error
            raise
        start, at = self._start, len(self._data) if end is None else end - self._base
        if at - start > self._limit:
            self._error = TooLargeError(f"a frame may have at most {self._limit} bytes, and this one has more")
            raise self._error
        if end is None:
            return None
        self._start = at
        return bytes(self._data[start:at])
