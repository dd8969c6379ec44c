"""One path: the winning event, the open losers, and what bounded chains would forget.

Knows: the rule by which any set of events on one path comes to one winner and one set of open losers, whatever their
order or repetition (docs/protocol, CONTAIN-1, APPLY-1, OPEN-1 to OPEN-5).
Does not know the ledger: it says which ticks became superseded, the caller writes them down.

Invariant: `head` is above every loser; no event kept here contains a loser; a loser is not remembered as contained.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from distkv.model.event import (
    COUNT_BITS,
    Event,
    Kind,
    Link,
    Order,
    Writer,
    contains,
    is_above,
    is_within,
    order,
    sort_down,
)
from distkv.model.sameness import says_same

LOSERS_MAX: Final = 16
"""How many open losers a path keeps (docs/protocol, OPEN-3); none are cut below reserved paths."""

NOTHING: Final[Mapping[Writer, int]] = {}

Memory = dict[Writer, list[tuple[int, Order]]]
"""Per writer the (tick, order of the event that named it) pairs that no other pair covers in both."""


@attrs.define(slots=True, eq=False, weakref_slot=False)
class Entry:
    """The state of one path. `losers` run from the highest down; nearly all paths have neither them nor a memory."""

    head: Event
    losers: tuple[Event, ...] = ()
    memory: Memory | None = None

    @property
    def is_live(self) -> bool:
        """Whether the path has a value."""
        return self.head.kind is Kind.SET

    def conflicts(self) -> tuple[Event, ...]:
        """The open losers that people are told of.

        What says the same as the winner is no conflict: it stays, unlisted, until the next write names it (OPEN-4).
        """
        return tuple([loser for loser in self.losers if not says_same(loser, self.head)]) if self.losers else ()

    def sources(self, decided: Collection[Event] = ()) -> list[Event]:
        """What a write on this path replaces: the winner, then the listed losers that it decides about, if there are
        such, and always the losers that nobody is told of."""
        if not self.losers:
            return [self.head]
        listed = self.conflicts()
        unlisted = [loser for loser in self.losers if loser not in listed]
        return [self.head, *(loser for loser in decided if loser in listed), *unlisted]

    def settle(self, new: Event | None, named: Collection[Link] = ()) -> list[Event]:
        """Find winner and open losers again, with `new` among them when it is given.

        `named` are links of which somebody says that they are superseded; that closes losers, never the winner.
        Returns the events that were here, or came, and are neither winner nor open loser now.
        """
        if new is not None and not self.losers and self.memory is None and _replaces(new, self.head):
            # The usual write: it knew the winner, nothing else is open, and its chain forgets nothing.
            gone, self.head = self.head, new
            return [gone]
        events = [self.head, *self.losers]
        if new is not None:
            events.append(new)
        sort_down(events)
        head = events[0]
        kept: list[Event] = []
        gone_now: list[Event] = []
        for event in events[1:]:
            closed = (
                event.link in named
                or event.kind is Kind.EXPIRE
                or self._remembers(event)
                or _is_known(event, events)
                or (len(kept) >= LOSERS_MAX and not event.path.is_reserved)
            )
            (gone_now if closed else kept).append(event)
        self.head, self.losers = head, tuple(kept)
        if gone_now:
            said = _ticks(head)
            for event in gone_now:
                self.remember(event, said)
        self._forget_covered()
        return gone_now

    def remember(self, event: Event, said: Mapping[Writer, int] = NOTHING) -> None:
        """Keep what the chain of an event that is not kept itself said about other writers.

        `said` is what the chain of a kept one says that is above it: that needs no memory.
        """
        at = None
        for node, tick in event.chain:
            writer = (node, tick >> COUNT_BITS)
            if tick <= said.get(writer, -1):
                continue
            at = at or order(event)
            rows = (self.memory or {}).get(writer, [])
            if any(t >= tick and o >= at for t, o in rows):
                continue
            if self.memory is None:
                self.memory = {}
            self.memory[writer] = [(t, o) for t, o in rows if not (t <= tick and o <= at)] + [(tick, at)]

    def knows(self, event: Event) -> bool:
        """Whether an event that is here, or was, contained this one."""
        return self._remembers(event) or any(contains(other, event) for other in (self.head, *self.losers))

    def _remembers(self, event: Event) -> bool:
        """Whether an event that is gone contained this one. A row of its own has its own order: not above it."""
        rows = self.memory.get(event.writer) if self.memory is not None else None
        if not rows:
            return False
        return any(tick >= event.tick and not is_within(at, event) for tick, at in rows)

    def _forget_covered(self) -> None:
        """Drop what the chains of winner and open losers say as well; then the map is empty for nearly all paths.

        So the map does not depend on the order in which events came, either.
        """
        if self.memory is None:
            return
        kept = [(_ticks(event), event) for event in (self.head, *self.losers)]
        left: Memory = {}
        for writer, rows in self.memory.items():
            said = [(ticks[writer], top) for ticks, top in kept if writer in ticks]
            rest = [(tick, at) for tick, at in rows if not any(tick <= t and is_within(at, top) for t, top in said)]
            if rest:
                left[writer] = rest
        self.memory = left or None


def _ticks(event: Event) -> dict[Writer, int]:
    """What a chain says: per writer the tick up to which it speaks."""
    return {(node, tick >> COUNT_BITS): tick for node, tick in event.chain}


def _replaces(new: Event, head: Event) -> bool:
    """Whether `new` wins over `head` and its chain says all that the chain of `head` said."""
    if not is_above(new, head):
        return False
    if not head.older and head.tick <= new.tick and head.writer == new.writer:
        return True  # the writer's own earlier change, which knew no other writer
    said = _ticks(new)
    return all(tick <= said.get((node, tick >> COUNT_BITS), -1) for node, tick in head.chain)


def _is_known(event: Event, events: Sequence[Event]) -> bool:
    """Whether one of the events above it contains it; the highest is the first."""
    for other in events:
        if other is event:
            return False  # what follows is below it
        if contains(other, event):
            return True
    return False
