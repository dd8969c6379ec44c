"""Who has shown, since this node's start, what he heard of its life: its disk may be older than it should be.

Knows: whom to ask, who answered, and how long readiness waits for the others.
Does not know what an answer says: the ledger tells a higher tick of our own (`Lives.is_rolled_back`).

Invariant: while `is_needed`, no tick of the life that the disk had is used. It ends when every other registered node
has answered what was asked after the start, or with that life (docs/protocol, LIFE-4, LIFE-5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.model.invariant import must

ASKED_MAX: Final = 16
"""How many are asked at once."""


@attrs.define(slots=True)
class Witnesses:
    """The machine. All times are monotonic milliseconds."""

    clock_ms: int
    is_needed: bool = False
    """Whether somebody may have heard of ticks that the disk does not know."""
    _shown: dict[NodeName, None] = attrs.field(factory=dict)
    _left: dict[NodeName, None] = attrs.field(factory=dict)
    """Who has not answered, of the others that were registered as of the change `_as_of`."""
    _as_of: int | None = None
    _new: dict[NodeName, None] = attrs.field(factory=dict)
    """Who of these was never asked."""
    _asked: dict[NodeName, int] = attrs.field(factory=dict)
    """When each was asked last."""
    _began_ms: int | None = None
    """When somebody was asked for the first time."""
    _asking: dict[NodeName, None] = attrs.field(factory=dict)
    _next_ms: int | None = None
    _patience_ms: int | None = None

    def need(self) -> None:
        """The node starts on data, and others are registered."""
        self.is_needed = True

    def need_not(self) -> None:
        """All have answered, or there is a life of which nobody can have heard."""
        self.is_needed = False

    def life_is_void(self) -> None:
        """A download replaces what the life is about: nobody is asked any more, and no answer counts."""
        self.is_needed = False
        self._asking.clear()

    def registered(self, others: Callable[[], Iterable[NodeName]], as_of: int) -> None:
        """Who is registered besides us; `others` is asked when `as_of`, the number of changes, is another one."""
        if as_of != self._as_of:
            self._as_of = as_of
            self._left = {name: None for name in others() if name not in self._shown}
            self._new = {name: None for name in self._left if name not in self._asked}

    def take_due(self, now_ms: int, is_alive: Callable[[NodeName], bool]) -> list[NodeName]:
        """Whom to ask now: each of the others once, and who seems alive again after a clock."""
        if self._next_ms is not None and now_ms < self._next_ms:
            return []
        if self._patience_ms is None:
            self._patience_ms = now_ms + self.clock_ms // 5
        found = []
        # For a clock nobody is asked again: then the many that do not answer yet need not be looked through each time.
        is_first = self._began_ms is None or now_ms - self._began_ms < self.clock_ms
        for name in [*islice(self._new, ASKED_MAX)] if is_first else self._left:
            if len(self._asking) >= ASKED_MAX:
                break
            if name in self._asking:
                continue
            asked_ms = self._asked.get(name)
            if asked_ms is None or (now_ms - asked_ms >= self.clock_ms and is_alive(name)):
                self._asked[name] = now_ms
                self._began_ms = now_ms if self._began_ms is None else self._began_ms
                self._new.pop(name, None)
                self._asking[name] = None
                found.append(name)
        self._next_ms = self._patience_ms if now_ms < self._patience_ms else now_ms + self.clock_ms
        return found

    def shown(self, name: NodeName) -> None:
        """One has answered, or has told without being asked."""
        self._shown[name] = None
        self._left.pop(name, None)
        self._new.pop(name, None)

    def ended(self, name: NodeName) -> None:
        """A question is over, answered or not."""
        if len(self._asking) >= ASKED_MAX:
            self._next_ms = None  # the next one may be asked
        self._asking.pop(name, None)

    @property
    def have_all(self) -> bool:
        """Whether every other one that is registered has answered."""
        return not self._left

    @property
    def is_asking(self) -> bool:
        """Whether somebody is being asked, so that another exchange would bring nothing."""
        return bool(self._asking)

    def is_waiting(self, now_ms: int) -> bool:
        """Whether readiness waits for answers: a life is worth a moment, but not a dead host's silence."""
        is_patient = self._patience_ms is not None and now_ms < self._patience_ms
        return self.is_needed and is_patient and self.is_asking

    def wake_ms(self) -> int | None:
        """When `take_due` wants to be asked again."""
        return self._next_ms if self.is_needed else None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._asking) <= ASKED_MAX, "few are asked at once")
        must(self._asking.keys() <= self._asked.keys(), "who is being asked was asked")
        must(self._left.keys().isdisjoint(self._shown), "who has answered is not waited for")
        must(self._new.keys() <= self._left.keys() - self._asked.keys(), "who is new was not asked yet")
