"""Messages of the topics that a node owns which no known subscriber is owed: when they go.

Knows: how far such messages of each topic may go.  Does not know who is asked whether they may (`rounds`).

Invariant: a message goes if it was here when all nodes were asked, and they said to know no other subscriber; or,
the oldest first, if more are kept than are allowed; or by a limit of its topic. But for such a limit, no message goes
that a known subscriber is owed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

import attrs

from distkv.core.ground.alarms import earliest
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.entry_facts import EntryFacts
from distkv.core.topics.keeping_limits import KeepingLimits
from distkv.core.topics.kept_messages import KeptMessages
from distkv.core.topics.topic import KeptMessage, Topic
from distkv.core.topics.topics import Topics
from distkv.model.ranges import Ranges

SLICE: Final = 2000
"""No more messages go in one step because all nodes said so."""
SLICE_MS: Final = 10
"""From one such step to the next."""
NAME_BYTES_MAX: Final = 128 << 10
"""So many bytes of names of topics are asked about at once, and one name more."""
AGE_S: Final = 1.0
"""Where too much is kept, those messages of one topic go together that came within this time."""


@attrs.frozen(slots=True, eq=False)
class FreeReach:
    """How far messages of a topic may go."""

    topic: Topic
    arrival: int
    """Of the last one."""


class FreeMessages:
    """Those of one node, since its machine began. All times but those of messages are of `ServiceTurn.boot_ms`."""

    def __init__(self, entries: EntryFacts, topics: Topics, bytes_max: int) -> None:
        self._entries: Final = entries
        self._topics: Final = topics
        self._bytes_max: Final = bytes_max
        self._kept: Final = KeptMessages()
        self._limits: Final = KeepingLimits()
        self._asked: Final = dict[str, FreeReach]()
        """As it was when all nodes were asked the last time."""
        self._allowed: Final = dict[str, FreeReach]()
        """What goes in the next steps."""
        self._slice_ms = 0

    def __len__(self) -> int:
        """In how many topics messages wait until all nodes have said something."""
        return len(self._kept)

    def bytes_of(self, name: str) -> int:
        """How much of a topic is kept although no known subscriber is owed it."""
        return self._kept.bytes_of(name)

    def wake_ms(self) -> int | None:
        """When `step` has something to do."""
        return earliest(self._limits.wake_ms(), self._slice_ms if self._allowed else None)

    def step(self, turn: ServiceTurn) -> list[str]:
        """Let go what is to go now; the topics that are to be looked at again."""
        now_ms = turn.boot_ms
        found = self._limits.take_due(now_ms)
        if self._allowed and now_ms >= self._slice_ms:
            self._slice_ms = now_ms + SLICE_MS
            found += self._let_go()
        return found

    def look(self, turn: ServiceTurn, name: str) -> None:
        """Something of a topic may be another: its messages, who is owed them, or who owns it."""
        topic = self._own(name)
        if topic is None:
            self._forget(name)
            return
        view = self._entries.view(name)
        if view is not None:
            self._limits.apply(turn, topic, view.keep_s, view.keep_bytes)
        self._measure(topic)

    def trim(self, turn: ServiceTurn) -> None:
        """Let go the oldest of what is too much."""
        count = 0
        while self._kept.bytes > self._bytes_max:
            for name in self._kept.oldest():
                topic = self._own(name)
                if topic is None:
                    self._forget(name)
                    continue
                count += self._trim(topic, self._kept.bytes - self._bytes_max)
                self._measure(topic)
        if count:
            turn.note("topic_away_limit_reached", count=count)

    # -- rounds

    def asks(self, limit: int) -> Collection[str]:
        """The topics about which all nodes are asked now, `limit` at the most."""
        self._asked.clear()
        size = 0
        for name in islice(self._kept.names(), limit):
            topic = self._own(name)
            if topic is not None:
                self._asked[name] = FreeReach(topic, topic.arrived())
                size += len(name.encode())
            if size > NAME_BYTES_MAX:
                break
        return tuple(self._asked)

    def answered(self, unclean: Collection[str]) -> None:
        """All nodes have said of which of these one holds something that this one may lack."""
        for name, reach in self._asked.items():
            if name in unclean:
                self._kept.put_off(name)
            else:
                self._allowed[name] = reach
        self._asked.clear()

    def doubt(self) -> None:
        """Others keep topics than those that were asked."""
        self._asked.clear()
        self._allowed.clear()

    # -- inside

    def _own(self, name: str) -> Topic | None:
        """The copy of a topic that this node owns."""
        view = self._entries.view(name)
        if view is None or not self._entries.is_mine(name):
            return None
        return self._topics.find(name, view.ids)

    def _forget(self, name: str) -> None:
        self._kept.drop(name)
        self._limits.drop(name)
        self._allowed.pop(name, None)

    def _measure(self, topic: Topic) -> None:
        """How much of it is kept, and since when."""
        bytes = topic.held_bytes - topic.size_owed()
        oldest = next(topic.free(topic.arrived()), None) if bytes else None
        if oldest is None:
            self._kept.drop(topic.name)
        else:
            self._kept.set(topic.name, bytes, oldest.time)

    def _let_go(self) -> list[str]:
        found, left = list[str](), SLICE
        for name, reach in [*islice(self._allowed.items(), SLICE)]:
            if left <= 0:
                break
            found.append(name)
            count = 0
            if self._own(name) is reach.topic:
                count = _remove(reach.topic, islice(reach.topic.free(reach.arrival), left))
            if count < left:
                del self._allowed[name]
            left -= max(count, 1)
        return found

    @staticmethod
    def _trim(topic: Topic, excess: int) -> int:
        """Let so many bytes go, or what came within a while."""
        going, oldest = list[KeptMessage](), None
        for message in topic.free(topic.arrived()):
            oldest = message.time if oldest is None else oldest
            if excess <= 0 or message.time > oldest + AGE_S:
                break
            going.append(message)
            excess -= message.size
        return _remove(topic, going)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._kept.check()
        self._limits.check()


def _remove(topic: Topic, messages: Iterable[KeptMessage]) -> int:
    """Let messages go; how many."""
    going, count = dict[str, Ranges](), 0
    for message in messages:
        going.setdefault(message.producer, Ranges()).add(message.counter)
        count += 1
    if going:
        topic.forget_all(going)
    return count
