"""What a copy of a topic knows of one producer: which counters ever came, which it may still send, and their tags.

Knows: the order of a producer's messages: one waits while a lower counter is missing, for ten seconds at the most.
Does not know where the messages are.

Invariant: what was seen stays seen. There are at most `TAGS_MAX` tags, those of the highest counters, and at most as
many gaps as the settings allow; the lowest one is closed for a further one: a counter in it never comes any more.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.model.ranges import Ranges
from distkv.wire.topic_bodies import flat, ranges_of
from distkv.wire.topic_fields import RANGES_MAX
from distkv.wire.topic_rows import TAGS_MAX, ProducerRow

ORDER_WAIT_MS: Final = 10_000
"""So long a message waits for those with lower counters."""
_STEP_MS: Final = 100
"""Waits that begin within so many milliseconds end together."""
_RANGE_BYTES: Final = 18
_TAG_BYTES: Final = 20
"""The most that one is in a row."""


@attrs.define(slots=True, eq=False)
class TopicProducer:
    """One of one topic."""

    seen: Ranges = attrs.field(factory=Ranges)
    floor: int = 0
    """The lowest counter for which it may still wait: none below it is waited for."""
    closed: int = 0
    """Of lower counters nobody knows whether they came, where their messages are not here."""
    tags: dict[int, bytes] = attrs.field(factory=dict)
    """By counters, which rise."""
    given_up: int = 0
    """Nothing below this counter is waited for any more."""
    _waits: list[tuple[int, int]] = attrs.field(factory=list)
    """When messages began to wait, and their highest counter."""
    _snapshot: Ranges | None = None

    def sees(self, counter: int, floor: int, now_ms: int, gaps_max: int) -> bool:
        """A message is here; whether this counter never came before."""
        is_new = self.seen.add(counter)
        if is_new:
            self._snapshot = None
        if floor > self.floor:
            self.floor = floor
        if self.seen.count() > 1:
            self._close(gaps_max)
        if self._missing() < counter:
            self._wait(counter, now_ms)
        return is_new

    def tag(self, counter: int, tag: bytes) -> None:
        """A tag of a counter is known; of two the lower one stays."""
        known = self.tags.get(counter)
        if known is not None:
            self.tags[counter] = min(known, tag)
            return
        is_last = not self.tags or counter > next(reversed(self.tags))
        self.tags[counter] = tag
        if not is_last:
            self.tags = dict(sorted(self.tags.items()))
        if len(self.tags) > TAGS_MAX:
            del self.tags[next(iter(self.tags))]

    def join(self, row: ProducerRow, gaps_max: int) -> bool:
        """Take over what another copy knows; whether that was new."""
        before = self.row()
        self.join_seen(ranges_of(row.seen))
        self.floor = max(self.floor, row.floor)
        self.closed = max(self.closed, row.closed)
        for counter, tag in row.tags:
            self.tag(counter, tag)
        self._close(gaps_max)
        return self.row() != before

    def join_seen(self, seen: Ranges) -> None:
        """These counters came."""
        if self.seen.update(seen):
            self._snapshot = None

    def row(self) -> ProducerRow:
        """All of it, as it is kept and given to others."""
        return ProducerRow(flat(self.seen), self.floor, tuple(self.tags.items()), self.closed)

    @property
    def row_bytes_max(self) -> int:
        """More than what `row` has in bytes, also when one message more has come."""
        return 64 + _RANGE_BYTES * (self.seen.count() + 1) + _TAG_BYTES * (len(self.tags) + 1)

    def snapshot(self) -> Ranges:
        """What was seen up to now, as a value; not to be changed."""
        if self._snapshot is None:
            self._snapshot = self.seen.copy()
        return self._snapshot

    def open_to(self, now_ms: int) -> tuple[int, int | None]:
        """Messages with counters below this one wait for none; and when more of them do so, as far as that is known."""
        self._end_waits(now_ms)
        missing = self._missing()
        if missing > self.seen.last():
            self._waits.clear()
            return missing, None
        return missing, self._waits[0][0] + ORDER_WAIT_MS if self._waits else None

    def _missing(self) -> int:
        """The lowest counter that is waited for."""
        return self.seen.first_gap(max(self.floor, self.given_up + 1))

    def _wait(self, counter: int, now_ms: int) -> None:
        self._end_waits(now_ms)
        since_ms = now_ms
        if self._waits and now_ms - self._waits[-1][0] < _STEP_MS:
            since_ms, before = self._waits.pop()
            counter = max(counter, before)
        self._waits.append((since_ms, counter))

    def _end_waits(self, now_ms: int) -> None:
        while self._waits and self._waits[0][0] + ORDER_WAIT_MS <= now_ms:
            self.given_up = max(self.given_up, self._waits.pop(0)[1])

    def _close(self, gaps_max: int) -> None:
        """Close the lowest gaps, if there are too many."""
        while self.seen.count() > min(gaps_max + 1, RANGES_MAX):
            lowest = [*self.seen.pairs()][:2]
            self.closed = max(self.closed, lowest[1][0])
            self.seen.add_range(lowest[0][0], lowest[1][1])
            self._snapshot = None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self.tags) <= TAGS_MAX, "the tags are bounded")
        must([*self.tags] == sorted(self.tags), "the counters of tags rise")
        must(len(self._waits) <= ORDER_WAIT_MS // _STEP_MS + 1, "the waits are bounded")
        must(self._snapshot in (None, self.seen), "a snapshot is as it is")
