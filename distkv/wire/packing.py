"""msgpack itself: the one module that meets the library (but for `serf_frames`, which speaks for another program).

Knows: how the library packs, unpacks, skips and fails.  Does not know what any bytes mean.

Invariant: whatever the bytes, only `DecodeError` comes out, and memory is allocated for what is there, never for what
a header merely declares: bytes that may be cut short are measured (`check_whole`) before they are unpacked, unless they
are so few that it does not matter (`unpack_whole`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import msgpack

from distkv.errors import DecodeError

ExtType: Final = msgpack.ExtType
Timestamp: Final = msgpack.Timestamp

pack: Final[Callable[[object], bytes]] = msgpack.packb
"""Raises TypeError, ValueError (too deep, not UTF-8) or OverflowError; safe in any thread."""

_SHARED: Final = msgpack.Packer()
pack_of_few: Final[Callable[[object], bytes]] = _SHARED.pack
"""As `pack_plain`, for whoever calls it several times at once, and `forget_packed` when memory ran out."""


def forget_packed() -> None:
    """Memory ran out while `pack_of_few` packed something: else what is packed next begins with that."""
    _SHARED.reset()


def pack_plain(value: object) -> bytes:
    """The same for exact str, bytes, int, float, bool and None, and exact lists and dicts in which everything can be
    packed; three to six times faster.

    It uses one shared buffer. That is safe because packing these runs no Python code, and makes nothing on the way that
    the garbage collector tracks, so no thread can come between.
    """
    try:
        return pack_of_few(value)
    except MemoryError:
        forget_packed()
        raise


_FAILURES: Final = (ValueError, TypeError, msgpack.UnpackException)
"""What unpacking raises: bad format, depth, text, timestamps and ext codes; unhashable keys; too few bytes."""

FEW_BYTES: Final = 256
"""What headers in so few bytes may declare takes some 200 KB at the most: less than measuring them would cost."""

_KEEP_BYTES: Final = 1 << 16
"""A skipper whose buffer may have grown beyond this is replaced when it runs empty."""


def unpack(data: bytes) -> object:
    """The one object in `data`, which must be whole (from `Skipper`, or after `check_whole`); else `unpack_whole`.

    Raises:
        DecodeError: it cannot be decoded, or more follows it.
    """
    try:
        found: object = msgpack.unpackb(data, strict_map_key=False)
    except _FAILURES as error:
        raise _not_msgpack(error) from None
    return found


def unpack_pairs(data: bytes, hook: Callable[[list[tuple[object, object]]], object]) -> object:
    """The same; `hook` makes each map from its pairs, so that it sees keys which a dict would merge."""
    try:
        found: object = msgpack.unpackb(data, strict_map_key=False, object_pairs_hook=hook)
    except _FAILURES as error:
        raise _not_msgpack(error) from None
    return found


def check_whole(data: bytes) -> None:
    """Whether `data` is exactly one whole object, found out without making it.

    Raises:
        DecodeError: it is not.
    """
    skipper = Skipper()
    skipper.feed(data)
    if skipper.skip() != len(data):
        raise DecodeError("the bytes are not exactly one whole msgpack object", "not_msgpack")


def unpack_whole(data: bytes) -> object:
    """The one object in `data`, which nobody has measured.

    Raises:
        DecodeError: it is not exactly one whole object.
    """
    if len(data) > FEW_BYTES:
        check_whole(data)
    return unpack(data)


def split_map(data: bytes) -> list[tuple[bytes, bytes]]:
    """The packed keys and values of a packed map.

    Raises:
        DecodeError: it is not a map, or not whole.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(data)
    pairs = []
    try:
        for _ in range(unpacker.read_map_header()):
            begin = unpacker.tell()
            unpacker.skip()
            middle = unpacker.tell()
            unpacker.skip()
            pairs.append((data[begin:middle], data[middle : unpacker.tell()]))
    except _FAILURES as error:
        raise _not_msgpack(error) from None
    return pairs


def split_array(data: bytes) -> list[bytes]:
    """The packed elements of a packed array.

    Raises:
        DecodeError: it is not an array, or not whole.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(data)
    parts = []
    try:
        for _ in range(unpacker.read_array_header()):
            begin = unpacker.tell()
            unpacker.skip()
            parts.append(data[begin : unpacker.tell()])
    except _FAILURES as error:
        raise _not_msgpack(error) from None
    return parts


def split_all(data: bytes) -> Iterator[bytes]:
    """The packed objects that stand one after another in `data`.

    Raises:
        DecodeError: the last one is cut short, or something is not msgpack.
    """
    skipper = Skipper()
    skipper.feed(data)
    begin = 0
    while begin < len(data):
        end = skipper.skip()
        if end is None:
            raise DecodeError("the last object is cut short", "not_msgpack")
        yield data[begin:end]
        begin = end


def unpack_all(data: bytes) -> list[object]:
    """The objects that stand one after another in `data`, of which nobody has measured any: for what a peer or client
    sent as one field of a frame, whose size has a bound.

    Raises:
        DecodeError: the last one is cut short, or something is not msgpack.
    """
    size = len(data)  # no list or map in it has more elements
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0, max_array_len=size, max_map_len=size)
    unpacker.feed(data)
    found, end, tell = [], 0, unpacker.tell
    try:
        for each in unpacker:
            found.append(each)
            end = tell()  # behind the last one it would be as far as the library looked, be that half an object
    except _FAILURES as error:
        raise _not_msgpack(error) from None
    if end != len(data):
        raise DecodeError("the last object is cut short", "not_msgpack")
    return found


def unpack_strict(data: bytes) -> object:
    """The one object in `data`, if it is of what JSON has, too, and its keys are text or bytes; three times faster than
    to look for what JSON lacks.

    Raises:
        DecodeError: it holds something else, or is none.
    """
    try:
        found: object = msgpack.unpackb(data, ext_hook=_refuse_ext)
    except _FAILURES as error:
        raise _not_msgpack(error) from None
    return found


def _refuse_ext(code: int, _: bytes) -> object:
    raise ValueError(f"an extension of code {code}")


def is_map(data: bytes) -> bool:
    """Whether the first byte starts a map."""
    return data[:1] in _MAP_BYTES


def is_container(data: bytes) -> bool:
    """Whether the first byte starts a map or an array."""
    return data[:1] in _CONTAINER_BYTES


def pack_map(fields: Mapping[str, object], raw: Mapping[str, bytes]) -> bytes:
    """A map of `fields`, and of fields that are packed already."""
    packed = pack(fields)
    if not raw:
        return packed
    count = len(fields) + len(raw)
    header = bytes((0x80 | count,)) if count < 16 else b"\xde" + count.to_bytes(2, "big")
    parts = [header, packed[1 if len(fields) < 16 else 3 :]]
    for name, value in raw.items():
        parts += (pack_plain(name), value)
    return b"".join(parts)


def pack_all(objects: Iterable[object]) -> tuple[int, bytes]:
    """How many objects there are, and each of them packed, one after another; none is kept."""
    packer = msgpack.Packer(autoreset=False)
    count = 0
    for found in objects:
        packer.pack(found)
        count += 1
    return count, packer.bytes()


def array_header(count: int) -> bytes:
    """What stands before the elements of an array."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


class Skipper:
    """Finds the ends of objects in a stream, at C speed, without making the objects.

    A half object costs nothing twice: skipping goes on where it stopped.
    """

    __slots__ = ("_base", "_end", "_fed", "_unpacker")

    def __init__(self) -> None:
        self._renew(0)

    def _renew(self, base: int) -> None:
        # `read_size` is what the library allocates at once; without it, 1 MiB for every connection.
        self._unpacker = msgpack.Unpacker(read_size=4096, max_buffer_size=0)
        self._base = base
        self._fed = self._end = 0

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        if self._fed > _KEEP_BYTES and self._end == self._fed:
            self._renew(self._base + self._fed)
        self._fed += len(data)
        self._unpacker.feed(data)

    def skip(self) -> int | None:
        """Where in the stream the next object ends; None while it is not whole.

        Raises:
            DecodeError: the stream is not msgpack, or nested too deeply to go on.
        """
        try:
            self._unpacker.skip()
        except msgpack.OutOfData:
            return None
        except _FAILURES as error:
            raise _not_msgpack(error) from None
        self._end = self._unpacker.tell()
        return self._base + self._end


class BulkUnpacker:
    """Unpacks a stream of objects, all that are whole at once: at a third of the price of cutting it into frames first.

    It is for the answers of a node to our own question, whose values were checked when they were stored.
    """

    __slots__ = ("_end", "_is_strict", "_kept", "_new", "_unpacker")

    def __init__(self, count_max: int) -> None:
        """`count_max`: so many elements a list or a map may have."""
        self._new = partial(msgpack.Unpacker, max_buffer_size=0, max_array_len=count_max, max_map_len=count_max)
        self._is_strict = True
        self._kept = bytearray()  # what was fed since the end of the last whole object
        self._unpacker = self._new(ext_hook=_refuse_ext)
        self._end = 0  # of that object, as the unpacker counts

    @property
    def is_strict(self) -> bool:
        """Whether all that was given so far is such as `unpack_strict` gives. Once it is not, nobody looks any more."""
        return self._is_strict

    @property
    def kept_bytes(self) -> int:
        """How much there is of an object that is not whole yet."""
        return len(self._kept)

    def feed(self, data: bytes) -> list[object]:
        """More of the stream; the objects that are whole now.

        Raises:
            DecodeError: something is not msgpack; then nothing more can be read.
        """
        self._kept += data
        found: list[object] = []
        try:
            self._unpacker.feed(data)
            self._take(found)
        except _FAILURES as error:
            if not self._is_strict:
                raise _not_msgpack(error) from None
            self._is_strict = False
            self._unpacker = self._new(strict_map_key=False)
            self._end = 0
            left, self._kept = bytes(self._kept), bytearray()
            return found + self.feed(left)
        return found

    def _take(self, found: list[object]) -> None:
        begin, tell = self._end, self._unpacker.tell
        try:
            for each in self._unpacker:
                found.append(each)
                self._end = tell()
        finally:
            del self._kept[: self._end - begin]


_MAP_BYTES: Final = frozenset(bytes((b,)) for b in (*range(0x80, 0x90), 0xDE, 0xDF))
_CONTAINER_BYTES: Final = _MAP_BYTES | {bytes((b,)) for b in (*range(0x90, 0xA0), 0xDC, 0xDD)}


def _not_msgpack(error: Exception) -> DecodeError:
    # Some of the library's errors have no text; then their name says it: FormatError, StackError.
    return DecodeError(f"broken msgpack: {str(error) or type(error).__name__}", "not_msgpack")
