"""What one follower is still to be told, in order: a queue of rows, and the batches of it that are under way.

Knows: places in the queue, and up to which the follower has all.  Does not know what a row means, nor who waits.

Invariant: what is at a place has been on the follower's disk when all batches up to it were answered. At most
`UNDER_WAY_MAX` batches are under way. A row that is gone goes alone: what came before it was answered, and what comes
after it waits; so no batch that is late brings it back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.topic_messages import CopiedRow, CopiedTopic, CopyBatch

BATCH_BYTES: Final = 128 << 10
UNDER_WAY_MAX: Final = 2
QUEUE_BYTES_MAX: Final = 16 << 20
"""Of what one follower has not answered."""
ROW_BYTES: Final = 64
"""Counted for each row besides its key and value."""


@attrs.frozen(slots=True)
class CopyPurpose:
    """A batch."""

    node: NodeName
    stream: int
    """Which of the streams to that node: a later one has a larger number."""
    place: int
    """Behind its last row."""


@attrs.frozen(slots=True)
class _QueuedRow:
    name: str
    ids: tuple[str, ...]
    row: CopiedRow

    @property
    def size(self) -> int:
        return size_of(self.row.key, self.row.value)


class CopyStream:
    """That to one node."""

    def __init__(self, node: NodeName, number: int) -> None:
        self._node: Final = node
        self._number: Final = number
        self._queue: Final = deque[_QueuedRow]()
        self._under_way: Final = dict[int, tuple[int, frozenset[str], bool]]()
        """By the place behind its last row: size, topics, and whether it has rows that are gone."""
        self._answered: Final = set[int]()
        """The places of those that were answered before an earlier one."""
        self._place = 0
        """Behind the last row that was taken from the queue."""
        self.size = 0
        """Of all that is not answered, in bytes."""
        self.done = 0
        """All before this place is on the follower's disk."""

    def add(self, name: str, ids: tuple[str, ...], rows: Mapping[str, bytes | None]) -> int:
        """Queue rows; the place behind them."""
        for key, value in rows.items():
            self._queue.append(_QueuedRow(name, ids, CopiedRow(key, value)))
            self.size += size_of(key, value)
        return self._place + len(self._queue)

    def next_batch(self) -> tuple[CopyPurpose, CopyBatch] | None:
        """What is to be sent now; None: nothing."""
        if not self._queue or len(self._under_way) == UNDER_WAY_MAX:
            return None
        removes = self._queue[0].row.value is None
        if self._under_way and (removes or any(gone for _, _, gone in self._under_way.values())):
            return None
        taken, size = list[_QueuedRow](), 0
        while self._queue and (self._queue[0].row.value is None) == removes:
            size += self._queue[0].size
            if taken and size > BATCH_BYTES:
                break
            taken.append(self._queue.popleft())
        self._place += len(taken)
        weight = sum(one.size for one in taken)
        self._under_way[self._place] = weight, frozenset(one.name for one in taken), removes
        return CopyPurpose(self._node, self._number, self._place), CopyBatch(tuple(_by_topic(taken)))

    def answered(self, purpose: CopyPurpose) -> frozenset[str]:
        """A batch is on the follower's disk; of which topics more is there now."""
        if purpose.stream != self._number or purpose.place not in self._under_way or purpose.place in self._answered:
            return frozenset()
        self._answered.add(purpose.place)
        names = frozenset[str]()
        for place in sorted(self._under_way):
            if place not in self._answered:
                break
            self._answered.remove(place)
            size, topics, _ = self._under_way.pop(place)
            self.size -= size
            self.done, names = place, names | topics
        return names

    def purposes(self) -> Iterator[CopyPurpose]:
        """Of the batches that are under way."""
        return (CopyPurpose(self._node, self._number, place) for place in self._under_way)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._under_way) <= UNDER_WAY_MAX, "few batches are under way")
        must(self._answered < self._under_way.keys() or not self._answered, "an earlier batch is not answered")
        must(len(self._under_way) < 2 or not any(gone for _, _, gone in self._under_way.values()), "a removal is alone")
        weights = sum(one.size for one in self._queue) + sum(size for size, _, _ in self._under_way.values())
        must(self.size == weights, "the size is that of all that is not answered")


def _by_topic(taken: Iterable[_QueuedRow]) -> Iterator[CopiedTopic]:
    for (name, ids), some in groupby(taken, lambda one: (one.name, one.ids)):
        yield CopiedTopic(name, ids, tuple([one.row for one in some]))


def size_of(key: str, value: bytes | None) -> int:
    """What a row counts, in bytes."""
    return len(key) + len(value or b"") + ROW_BYTES
