"""How far this node is with the activities of each origin, and what waits for earlier ones.

Knows: of each origin the last number that was given out, the highest that there is, and those that are here too early.
Does not know who has what is missing, nor what becomes of what may be given out.

Invariant: what waits has a number above the one that its origin has reached. There are at most `ORIGINS_MAX` origins,
and what waits stays within its bounds: above them it is not taken, and is missing like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.wire.activity_bodies import ORIGINS_MAX, KeptActivity

OVERHEAD_BYTES: Final = 256
"""What an activity counts besides its text."""


def size_of(activity: KeptActivity) -> int:
    """What it counts where the bytes of activities have a bound."""
    return len(activity.activity) + OVERHEAD_BYTES


@attrs.frozen(slots=True)
class Hole:
    """What an origin waits for, and since when."""

    origin: str
    first: int
    last: int
    since_ms: int


@attrs.define(slots=True, eq=False)
class _OriginNumbers:
    reached: int = 0
    """Up to here all was given out, or is passed over."""
    had: int = 0
    """The highest number that is or was here."""
    known: int = 0
    """The highest number that there is, as somebody said."""
    held: dict[int, KeptActivity] = attrs.field(factory=dict)
    since_ms: int | None = None
    """Since when the next one is missing, or may not be given out; None: nothing waits."""
    changed_ms: int = 0


class Origins:
    """Those of one node."""

    def __init__(self, own: str, held_max: int, held_bytes: int) -> None:
        self._own: Final = own
        self._held_max: Final = held_max
        self._held_bytes_max: Final = held_bytes
        self._all: Final = dict[str, _OriginNumbers]({own: _OriginNumbers()})
        self._waiting: Final = dict[str, None]()
        """The origins of which something is missing, or waits; in an order that is the same in each run."""
        self._held = 0
        self._held_bytes = 0
        self.dropped = 0
        """How many were not taken, because too much waits."""
        self.forgotten = 0
        """How many origins were forgotten, because there are too many."""

    # -- questions

    @property
    def held(self) -> int:
        """How many activities wait for earlier ones."""
        return self._held

    @property
    def is_waiting(self) -> bool:
        """Whether anything is missing, or waits."""
        return bool(self._waiting)

    def reached(self, origin: str) -> int:
        """Up to which number all of it was given out, or is passed over."""
        found = self._all.get(origin)
        return 0 if found is None else found.reached

    def all_reached(self) -> dict[str, int]:
        """The same of all origins."""
        return {name: origin.reached for name, origin in self._all.items()}

    def had(self, since_ms: int | None = None) -> dict[str, int]:
        """The highest numbers that are or were here, of all origins or those that changed since then."""
        return {
            name: origin.had
            for name, origin in self._all.items()
            if origin.had and (since_ms is None or origin.changed_ms >= since_ms)
        }

    def reached_last(self, most: int) -> dict[str, int]:
        """How far the origins are that changed last, so many of them."""
        names = sorted(self._all, key=lambda name: self._all[name].changed_ms, reverse=True)[:most]
        return {name: self._all[name].reached for name in names if self._all[name].reached}

    def has_reached(self, numbers: Mapping[str, int]) -> bool:
        """Whether all these were given out, or are passed over."""
        return all(self.reached(origin) >= number for origin, number in numbers.items())

    def held_of(self, origin: str, first: int, last: int) -> list[KeptActivity]:
        """What waits of an origin between two numbers, in order."""
        found = self._all.get(origin)
        return [] if found is None else [found.held[number] for number in sorted(found.held) if first <= number <= last]

    def holes(self) -> Iterator[Hole]:
        """What is missing, the first of each origin."""
        for name in self._waiting:
            origin = self._all[name]
            if origin.reached + 1 not in origin.held and origin.since_ms is not None:
                last = min(origin.held) - 1 if origin.held else origin.known
                yield Hole(name, origin.reached + 1, last, origin.since_ms)

    def held_back(self) -> Iterator[tuple[str, int]]:
        """The origins whose next activity is here, and comes after one that is not; since when."""
        for name in self._waiting:
            origin = self._all[name]
            if origin.reached + 1 in origin.held and origin.since_ms is not None:
                yield name, origin.since_ms

    # -- what happens

    def adopt(self, numbers: Mapping[str, int], now_ms: int) -> None:
        """Begin where another node is, with each origin."""
        for name, number in numbers.items():
            if name != self._own:
                self._advance(name, number, now_ms)

    def advance_own(self, number: int, now_ms: int) -> None:
        """An activity of this node was given out."""
        self._advance(self._own, number, now_ms)

    def sent_own(self, number: int, now_ms: int) -> None:
        """An activity of this node is on its way."""
        own = self._all[self._own]
        own.had = own.known = number
        own.changed_ms = now_ms

    def hear(self, activity: KeptActivity, now_ms: int) -> bool:
        """An activity of another node came; whether it is here now, or was before."""
        name, number = activity.origin, activity.number
        if name == self._own:
            return True
        origin = self._found(name, now_ms)
        if number <= origin.reached or number in origin.held:
            return True
        origin.known = max(origin.known, number)
        size = size_of(activity)
        is_next = number == origin.reached + 1
        if not is_next and (self._held >= self._held_max or self._held_bytes + size > self._held_bytes_max):
            self.dropped += 1
            self._wait(name, origin, now_ms)
            return False
        origin.held[number] = activity
        self._held += 1
        self._held_bytes += size
        if number > origin.had:
            origin.had, origin.changed_ms = number, now_ms
        self._wait(name, origin, now_ms)
        return True

    def know(self, name: str, number: int, now_ms: int) -> None:
        """Somebody has an activity with this number."""
        if name != self._own and number > self.reached(name):
            origin = self._found(name, now_ms)
            origin.known = max(origin.known, number)
            self._wait(name, origin, now_ms)

    def take_ready(self, now_ms: int) -> Iterator[KeptActivity]:
        """What may be given out now, in order; each is reached when it is taken."""
        is_changed = bool(self._waiting)
        while is_changed:
            is_changed = False
            for name in list(self._waiting):
                origin = self._all[name]
                while (activity := origin.held.get(origin.reached + 1)) is not None and self._may_go(activity):
                    self._advance(name, activity.number, now_ms)
                    is_changed = True
                    yield activity

    def force(self, name: str, now_ms: int) -> KeptActivity | None:
        """Take the next activity of an origin although it comes after one that is not here."""
        activity = self._all[name].held.get(self._all[name].reached + 1)
        if activity is not None:
            self._advance(name, activity.number, now_ms)
        return activity

    def pass_over(self, hole: Hole, now_ms: int) -> None:
        """What is missing does not come."""
        self._advance(hole.origin, hole.last, now_ms)

    # -- inside

    def _found(self, name: str, now_ms: int) -> _OriginNumbers:
        origin = self._all.get(name)
        if origin is None:
            if len(self._all) >= ORIGINS_MAX:
                self._forget_one()
            origin = self._all[name] = _OriginNumbers(changed_ms=now_ms)
        return origin

    def _forget_one(self) -> None:
        """The one that changed least lately."""
        others = ((origin.changed_ms, name) for name, origin in self._all.items() if name != self._own)
        name = min(others)[1]
        for activity in self._all.pop(name).held.values():
            self._let_go(activity)
        self._waiting.pop(name, None)
        self.forgotten += 1

    def _advance(self, name: str, number: int, now_ms: int) -> None:
        origin = self._found(name, now_ms)
        if number <= origin.reached:
            return
        if number == origin.reached + 1:
            gone = [number] if number in origin.held else []
        else:
            gone = [one for one in origin.held if one <= number]
        for one in gone:
            self._let_go(origin.held.pop(one))
        origin.reached = number
        origin.known = max(origin.known, number)
        if number > origin.had:
            origin.had, origin.changed_ms = number, now_ms
        origin.since_ms = None
        self._wait(name, origin, now_ms)

    def _wait(self, name: str, origin: _OriginNumbers, now_ms: int) -> None:
        if name != self._own and (origin.held or origin.known > origin.reached):
            self._waiting[name] = None
            if origin.since_ms is None:
                origin.since_ms = now_ms
        else:
            self._waiting.pop(name, None)
            origin.since_ms = None

    def _may_go(self, activity: KeptActivity) -> bool:
        return activity.after is None or self.has_reached(activity.after)

    def _let_go(self, activity: KeptActivity) -> None:
        self._held -= 1
        self._held_bytes -= size_of(activity)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._all) <= ORIGINS_MAX, "no more origins are known than may be")
        held = [(origin, one) for origin in self._all.values() for one in origin.held.values()]
        must(all(one.number > origin.reached for origin, one in held), "what waits was not given out")
        must(len(held) == self._held, "what waits is counted")
        must(sum(size_of(one) for _, one in held) == self._held_bytes, "its bytes are counted")
        must(self._own not in self._waiting, "nothing of this node waits here")
        for name, origin in self._all.items():
            waits = name != self._own and (bool(origin.held) or origin.known > origin.reached)
            must((name in self._waiting) == waits, f"{name} waits for what is missing")
