"""In which order a subscriber gets what it is owed.

Knows: the order in which messages came, and that each producer's go in the order of counters.  Does not know
what a value means.

Invariant: nothing changes while messages are taken from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from distkv.core.topics.copy_state import CopyState
from distkv.core.topics.subscribers import TopicSubscriber
from distkv.wire.topic_replies import TopicMessage


def sooner(one: int | None, other: int | None) -> int | None:
    """Of two times the first; None: never."""
    return min((ms for ms in (one, other) if ms is not None), default=None)


def next_messages(
    copy: CopyState, subscriber: TopicSubscriber, limit: int, bytes_max: int, now_ms: int
) -> tuple[tuple[TopicMessage, ...], int | None]:
    """So many messages at the most, and, behind the first one, so many bytes of values; and when one that waits for
    another does so no more."""
    giving = _GivenOrder(copy, subscriber, now_ms)
    found = list[TopicMessage]()
    size = 0
    for producer, counter in islice(giving.messages(), limit):
        row = copy.message(producer, counter)
        if row is None:  # that cannot be: `check` looks for it
            continue
        size += len(row.value)
        if found and size > bytes_max:
            break
        found.append(TopicMessage(producer, counter, row.value, row.time))
    return tuple(found), giving.wake_ms


class _GivenOrder:
    """Which messages a subscriber gets, in their order."""

    def __init__(self, copy: CopyState, subscriber: TopicSubscriber, now_ms: int) -> None:
        self.wake_ms: int | None = None
        """When one that waits for another does so no more."""
        self._copy: Final = copy
        self._subscriber: Final = subscriber
        self._now_ms: Final = now_ms

    def messages(self) -> Iterator[tuple[str, int]]:
        """In the order in which they came; but each producer's in that of counters."""
        messages, subscriber = self._copy.messages, self._subscriber
        streams = dict[str, Iterator[int]]()
        open_to = dict[str, int]()
        for _, producer, _ in messages.among(self._copy.owed(subscriber)):
            stream = streams.get(producer)
            if stream is None:
                stream = streams[producer] = subscriber.owed_counters(producer, messages.counters(producer))
                open_to[producer], wake_ms = self._copy.producers[producer].open_to(self._now_ms)
                self.wake_ms = sooner(self.wake_ms, wake_ms)
            if open_to[producer] == 0:
                continue
            counter = next(stream)
            if counter < open_to[producer]:
                yield producer, counter
            else:
                open_to[producer] = 0
