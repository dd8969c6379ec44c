"""Copies of topics on disks of memory, for tests.

Knows: how a step is carried out.  Does not know any rule.
"""

from __future__ import annotations

from distkv.core.ground.data import Data
from distkv.core.ground.turn import DataKept, ServiceTurn
from distkv.core.ready import Note
from distkv.core.topics.copy_rows import Changes
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.topic import Next, Topic
from distkv.core.topics.topics import Topics
from distkv.model.ranges import Ranges
from distkv.wire.values import pack_value

SERVICE = "topics"
NAME = "jobs"
IDS = ("00000000000000aa",)


def ranges(*counters: int) -> Ranges:
    """These counters."""
    return Ranges.from_ticks(sorted(counters))


class Disk:
    """What one node keeps, and its copies since the last start."""

    def __init__(self, settings: TopicSettings | None = None) -> None:
        self.data = Data()
        self.settings = settings or TopicSettings()
        self.topics = Topics(self.data.of(SERVICE), self.settings, 0)
        self.notes: list[str] = []
        self.now_ms = 0

    def topic(self) -> Topic:
        """The one of the tests."""
        return self.topics.find(NAME, IDS) or self.topics.create(NAME, IDS)

    def keep(self) -> Changes:
        """End a step; what changed of the topic."""
        turn = ServiceTurn(SERVICE, self.now_ms, 0.0, self.data)
        found = self.topics.keep(turn)
        for effect in turn.effects:
            if isinstance(effect, DataKept):
                self.data.keep(SERVICE, effect.key, effect.value)
            elif isinstance(effect, Note):
                self.notes.append(effect.id)
        return next((rows for topic, rows in found if topic.name == NAME), {})

    def restart(self, now_ms: int | None = None) -> Topic:
        """Begin anew with what is on the disk."""
        self.keep()
        self.topics = Topics(self.data.of(SERVICE), self.settings, self.now_ms if now_ms is None else now_ms)
        return self.topic()


def put(topic: Topic, producer: str, *counters: int, floor: int | None = None, now_ms: int = 0) -> None:
    """Messages whose values say what they are."""
    for counter in counters:
        topic.put(producer, counter, value_of(producer, counter), 1.0, floor, None, now_ms)


def value_of(producer: str, counter: int) -> bytes:
    return pack_value(f"{producer}{counter}")


def given(topic: Topic, subscriber: str, limit: int = 100, now_ms: int = 0) -> list[tuple[str, int]]:
    """Which messages it gets."""
    return named(topic.next_messages(subscriber, limit, now_ms))


def named(found: Next) -> list[tuple[str, int]]:
    return [(message.producer, message.counter) for message in found.messages]


def op_of(topic: Topic, subscriber: str) -> int | None:
    """The number of its last operation; None: it is not known."""
    known = topic.copy.subscribers.get(subscriber)
    return None if known is None else known.op


def copy_rows(source: Topic, target: Topic, now_ms: int = 0) -> bool:
    """All rows of one copy are joined into another; whether that changed anything."""
    rows = [row for bucket in range(256) for row in source.rows_of(bucket)]
    return target.join_rows(rows, now_ms)
