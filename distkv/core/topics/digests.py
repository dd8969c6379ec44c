"""What a copy of a topic is, in a few bytes: 256 sums of the hashes of its rows.

Knows: rows as they are compared, and to which bucket each belongs.  Does not know what is in them.

Nothing is summed up until somebody asks for the first time. From then on a message costs a hash when it comes and when
it goes; of all other rows it is only noted that they changed, and they are hashed when somebody asks again.

Invariant: copies with equal rows have equal sums.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Final
from zlib import crc32

from distkv.model.invariant import must

BUCKETS: Final = 256
SUM_BYTES: Final = 16
DIGEST_BYTES: Final = 16
BLOCK_BITS: Final = 6
"""So many bits of a counter do not matter for the bucket of its message: neighbours are compared together."""
_ALL: Final = (1 << 8 * SUM_BYTES) - 1


def bucket_of_name(name: str) -> int:
    """That of the row of a producer, and of its first messages; that of a subscriber, and of all it has done: these
    mean something behind its row only."""
    return crc32(name.encode()) % BUCKETS


def bucket_of_message(producer: str, counter: int) -> int:
    return (bucket_of_name(producer) + (counter >> BLOCK_BITS)) % BUCKETS


def counters_of_bucket(producer: str, counters: array[int], bucket: int) -> Iterator[int]:
    """Of the counters of a producer, which rise, those whose messages are in a bucket."""
    first = bucket_of_name(producer)
    at = 0
    while at < len(counters):
        block = counters[at] >> BLOCK_BITS
        block += (bucket - first - block) % BUCKETS
        at = bisect_left(counters, block << BLOCK_BITS, at)
        end = bisect_left(counters, block + 1 << BLOCK_BITS, at)
        yield from counters[at:end]
        at = end


class Digests:
    """Those of one copy."""

    def __init__(self) -> None:
        self.is_on = False
        self._sums: Final = [0] * BUCKETS
        self._hashes: Final = dict[str, tuple[int, int]]()
        """Of rows that are no messages: the bucket, and what is in its sum."""
        self._changed: Final = set[str]()

    def add(self, bucket: int, key: str, row: bytes) -> None:
        """A message is there, if anybody asked for sums yet."""
        if self.is_on:
            self._sums[bucket] = self._sums[bucket] + _hash(key, row) & _ALL

    def remove(self, bucket: int, key: str, row: bytes) -> None:
        """It is not any more."""
        if self.is_on:
            self._sums[bucket] = self._sums[bucket] - _hash(key, row) & _ALL

    def change(self, key: str) -> None:
        """Another row is another, or not there any more."""
        if self.is_on:
            self._changed.add(key)

    def begin(self, messages: Iterable[tuple[int, str, bytes]], others: Iterable[str]) -> None:
        """Somebody asks for the first time."""
        self.is_on = True
        for message in messages:
            self.add(*message)
        self._changed.update(others)

    def sums(self, row_of: Callable[[str], tuple[int, bytes] | None]) -> list[bytes]:
        """Of all buckets. `row_of` says of a key that is no message's the bucket and the row; None: there is none."""
        for key in self._changed:
            bucket, number = self._hashes.pop(key, (0, 0))
            self._sums[bucket] = self._sums[bucket] - number & _ALL
            found = row_of(key)
            if found is not None:
                self._hashes[key] = found[0], _hash(key, found[1])
                self.add(found[0], key, found[1])
        self._changed.clear()
        return [number.to_bytes(SUM_BYTES, "big") for number in self._sums]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.is_on or not (self._changed or self._hashes), "nothing is summed up before somebody asks")
        must(all(0 <= number <= _ALL for number in self._sums), "sums have so many bytes")


def digest_of(sums: Iterable[bytes]) -> bytes:
    """Of all buckets together."""
    return blake2b(b"".join(sums), digest_size=DIGEST_BYTES).digest()


def _hash(key: str, row: bytes) -> int:
    name = key.encode()
    found = blake2b(name, digest_size=SUM_BYTES, salt=len(name).to_bytes(2, "big"))
    found.update(row)
    return int.from_bytes(found.digest(), "big")
