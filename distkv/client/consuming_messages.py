"""The messages of one subscriber that are here: those that wait, that are handed out, and that are done.

Knows: in which of these states a message is, and of which the servers are still to be told.  Does not know when
anything is asked, nor how it is kept (`consuming`).

Invariant: a message waits once, or is handed out, or is done. The servers are told only of what is done. What a signal
handler raises while a message is handed out leaves it waiting, or handed out; its receiver has it in the second case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias

from distkv.model.invariant import must
from distkv.model.ranges import Ranges
from distkv.wire.topic_fields import PRODUCERS_MAX, RANGES_MAX
from distkv.wire.topic_replies import TopicMessage

HANDED_MAX: Final = 1000
"""How many messages may be handed out and not done."""
SAID_MAX: Final = 1000
"""How many are said to be done at once."""
HAD_RANGES_MAX: Final = 20_000
"""How much of what is done is said when a consumer begins; of the rest it hears from the servers."""

MessageId: TypeAlias = tuple[str, int]
"""Producer and counter."""


class ConsumerMessages:
    """What is here of a topic for one subscriber."""

    def __init__(self, done: Mapping[str, Ranges]) -> None:
        """
        Args:
            done: as it was written, by producers.
        """
        self._waiting = deque[TopicMessage]()
        self._handed: Final[dict[MessageId, None]] = {}
        self._done: Final = {producer: ranges.copy() for producer, ranges in done.items()}
        self._to_say: Final[dict[MessageId, None]] = {}

    # -- what waits, and is handed out

    def keep(self, messages: Iterable[TopicMessage]) -> None:
        """They came; each of them waits, unless it is here, or done."""
        here = {_id(message) for message in self._waiting} | self._handed.keys()
        for message in messages:
            one = _id(message)
            if self.is_done(*one):
                self._to_say[one] = None
            elif one not in here:
                here.add(one)
                self._waiting.append(message)

    @property
    def first(self) -> TopicMessage | None:
        """The next one to be handed out; None: none waits, or too many are handed out."""
        return self._waiting[0] if self._waiting and not self.is_full else None

    def hand_out_first(self) -> None:
        """It is with its receiver. From the first change on nothing is called: Python runs no signal handler there, nor
        while functions return."""
        one = _id(self._waiting[0])
        self._handed[one] = None
        del self._waiting[0]

    def drop_waiting(self) -> None:
        """What waits is not handed out any more."""
        self._waiting.clear()

    @property
    def is_waiting(self) -> bool:
        """Whether a message waits."""
        return bool(self._waiting)

    @property
    def handed_count(self) -> int:
        """How many are handed out, and not done."""
        return len(self._handed)

    @property
    def is_full(self) -> bool:
        """Whether too many are handed out."""
        return len(self._handed) >= HANDED_MAX

    def is_handed(self, producer: str, counter: int) -> bool:
        """Whether it is handed out, and not done."""
        return (producer, counter) in self._handed

    # -- what is done, and who is told

    def is_done(self, producer: str, counter: int) -> bool:
        return counter in self._done.get(producer, ())

    def finish(self, producer: str, counter: int) -> None:
        """It is done, and the servers do not know."""
        self._done.setdefault(producer, Ranges()).add(counter)
        self._handed.pop((producer, counter), None)
        self._to_say[producer, counter] = None

    def learn(self, done: Mapping[str, Ranges]) -> None:
        """All this is done, which others knew."""
        if not done:
            return
        for producer, ranges in done.items():
            self._done.setdefault(producer, Ranges()).update(ranges)
        for one in [one for one in self._handed if self.is_done(*one)]:
            del self._handed[one]
        self._waiting = deque(message for message in self._waiting if not self.is_done(*_id(message)))

    def not_done(self, counters: Mapping[str, Ranges]) -> dict[str, Ranges]:
        """What of them is not done."""
        return {one: rest for one, some in counters.items() if (rest := some - self._done.get(one, Ranges()))}

    def say_gone(self, counters: Mapping[str, Ranges]) -> None:
        """The servers are to be told that they are done. They name them again until then, so some at a time will do."""
        each = ((producer, counter) for producer, ranges in counters.items() for counter in ranges)
        self._to_say.update(dict.fromkeys(islice(each, SAID_MAX)))

    @property
    def is_all_said(self) -> bool:
        """Whether the servers have been told all of what is done."""
        return not self._to_say

    @property
    def to_say(self) -> tuple[MessageId, ...]:
        """What to tell the servers next."""
        return tuple(islice(self._to_say, SAID_MAX))

    def said(self, done: Iterable[MessageId]) -> None:
        """The servers have been told of these."""
        for one in done:
            self._to_say.pop(one, None)

    def had(self) -> Mapping[str, Ranges]:
        """What is done, as far as there is room to say it."""
        found: dict[str, Ranges] = {}
        left = HAD_RANGES_MAX
        for producer, ranges in self._done.items():
            left -= ranges.count()
            if ranges.count() <= RANGES_MAX and left >= 0 and len(found) < PRODUCERS_MAX:
                found[producer] = ranges.copy()
        return found

    def check(self) -> None:
        waiting = [_id(message) for message in self._waiting]
        must(len(waiting) == len(set(waiting)), "a message waits once")
        must(not self._handed.keys() & set(waiting), "what waits is not handed out")
        must(not any(self.is_done(*one) for one in self._handed), "what is handed out is not done")
        must(all(self.is_done(*one) for one in self._to_say), "what is said is in the state")
        must(len(self._handed) <= HANDED_MAX, "few are handed out")


def _id(message: TopicMessage) -> MessageId:
    return message.producer, message.counter
