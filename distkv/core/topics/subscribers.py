"""What a copy of a topic knows of one subscriber: its subscription, what it had, and what it is owed.

Knows: that what it had is what had come when it subscribed, and what it said it has since.  Does not know values.

Invariant: what it is *owed*, as far as it was looked at (`checked`), are the messages that are here and that it never
had. It is built when it is first asked for: a node that gives nothing to anybody has none of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import attrs

from distkv.core.topics.messages import Messages
from distkv.model.invariant import must
from distkv.model.ranges import Ranges
from distkv.wire.topic_bodies import flat, flat_map
from distkv.wire.topic_rows import DoneRow, SubscriberRow

_NONE: Final = Ranges()


@attrs.define(slots=True, eq=False)
class TopicSubscriber:
    """One of one topic, or one that was."""

    op: int
    is_subscribed: bool
    base: dict[str, Ranges] = attrs.field(factory=dict)
    """What had come when it subscribed; the ranges are not to be changed."""
    done: dict[str, Ranges] = attrs.field(factory=dict)
    owed: Ranges | None = None
    """By arrivals; None: nobody asked yet."""
    checked: int = 0
    """Up to this arrival."""
    lost: dict[str, Ranges] = attrs.field(factory=dict)
    """What it was owed and is not here any more; it did not say yet that it heard so."""
    suspects: set[str] = attrs.field(factory=set)
    """The producers of whom something may be so."""

    def had(self, producer: str, counter: int) -> bool:
        return counter in self.base.get(producer, _NONE) or counter in self.done.get(producer, _NONE)

    def owed_now(self, messages: Messages, odd: array[int]) -> Ranges:
        """What it is owed, up to the last message. `odd`: the arrivals of those that somebody may have had before they
        came here."""
        if self.owed is None:
            self.owed = self._build(messages)
        elif self.checked < messages.last:
            self.owed.add_range(self.checked + 1, messages.last + 1)
            for arrival in odd[bisect_right(odd, self.checked) :]:
                found = next(messages.between(arrival, arrival + 1), None)
                if found is None or self.had(*found[1:]):
                    self.owed.discard(arrival)
        self.checked = messages.last
        return self.owed

    def owed_counters(self, producer: str, counters: array[int]) -> Iterator[int]:
        """Of these counters of a producer, which rise, those that it never had."""
        base, done = self.base.get(producer, _NONE), self.done.get(producer, _NONE)
        at = 0
        while at < len(counters):
            counter = counters[at]
            end = done.first_gap(base.first_gap(counter))
            if end == counter:
                yield counter
                at += 1
            else:
                at = bisect_left(counters, end, at)

    def add_done(self, producer: str, said: Ranges, messages: Messages) -> bool:
        """It has these; whether that is new."""
        if not said or not self.done.setdefault(producer, Ranges()).update(said):
            return False
        if self.owed is not None:
            for begin, end in said.pairs():
                for arrival in messages.arrivals(producer, begin, end):
                    self.owed.discard(arrival)
        lost = self.lost.get(producer)
        if lost is not None:
            self.lost[producer] = lost - said
        return True

    def went(self, arrivals: Ranges) -> Ranges:
        """Messages are not here any more; which of these arrivals it was owed."""
        if self.owed is None:
            return _NONE
        found = self.owed & arrivals
        for begin, end in found.pairs():
            self.owed.discard_range(begin, end)
        return found

    def forget_owed(self) -> None:
        """What it is owed is to be looked at anew."""
        self.owed = None
        self.checked = 0
        self.lost.clear()

    def row(self) -> SubscriberRow:
        return SubscriberRow(self.op, self.is_subscribed, flat_map(self.base))

    def done_row(self, producer: str) -> DoneRow:
        return DoneRow(self.op, flat(self.done[producer]))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.is_subscribed or not (self.base or self.done), "who is not subscribed has nothing")
        must(all(self.done.values()), "of each producer something is done")
        lost = [(producer, counter) for producer, some in self.lost.items() for counter in some]
        must(not any(self.had(*one) for one in lost), "what is lost was never had")

    def _build(self, messages: Messages) -> Ranges:
        found = list[int]()
        for producer in messages.producers():
            counters = messages.counters(producer)
            here = Ranges([(counters[0], counters[-1] + 1)])
            rest = here - self.base.get(producer, _NONE) - self.done.get(producer, _NONE)
            for begin, end in rest.pairs():
                found += messages.arrivals(producer, begin, end)
        return Ranges.from_ticks(sorted(found))
