"""The activities of this node's own clients, until they are echoed.

Knows: who has confirmed each, who is named to do so, and when others are.  Does not know who hears the echo.

Invariant: they are echoed in the order of their numbers, each when as many other nodes as there must be have it. (One
that is confirmed only by its neighbour is lost when both die.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

import attrs

from distkv.core.activity.origins import size_of
from distkv.core.activity.other_listeners import OtherListeners
from distkv.core.ground.turn import ServiceTurn
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.activity_bodies import NAMED_MAX, ActivitySaid, KeptActivity
from distkv.wire.declared import pack
from distkv.wire.edges import FRAME_BYTES_MAX

SILENT_MS: Final = 500
"""After this time without enough confirmations other nodes are told an activity, and named."""
AGAIN_BYTES: Final = 256 << 10
"""So much is told again at once."""
AGAIN_MS: Final = 100
"""What is left is told so much later."""


@attrs.define(slots=True, eq=False)
class _Unechoed:
    activity: KeptActivity
    client: int
    asked_ms: int
    named: tuple[NodeName, ...]
    confirmed: set[NodeName] = attrs.field(factory=set)


class OwnActivities:
    """Those of one start of a node."""

    def __init__(self, start: str, copies: int, others: OtherListeners) -> None:
        self._start: Final = start
        self._copies: Final = copies
        self._others: Final = others
        self._unechoed: Final = deque[_Unechoed]()
        self.size = 0
        """Of these, in bytes."""
        self.last = 0
        """The number of the last one."""
        self.named_again = 0
        """How often other nodes were named, because the first ones were silent."""
        self._due_ms: int | None = None

    def __len__(self) -> int:
        return len(self._unechoed)

    def say(self, turn: ServiceTurn, activity: KeptActivity, client: int) -> None:
        """Say the next one to all."""
        self.last = activity.number
        named = self._others.nodes[: self._copies]
        turn.tell_all(self._frame(activity, named))
        self._unechoed.append(_Unechoed(activity, client, turn.boot_ms, named))
        self.size += size_of(activity)
        if self._due_ms is None:
            self._due_ms = turn.boot_ms + SILENT_MS

    def confirmed(self, node: NodeName, start: str, numbers: Collection[int]) -> None:
        """A node says that it has these."""
        if start == self._start and self._unechoed:
            first = self._unechoed[0].activity.number
            for number in numbers:
                if first <= number <= self.last:
                    self._unechoed[number - first].confirmed.add(node)

    def take_echo(self) -> KeptActivity | None:
        """The next one, if enough others have it."""
        if not self._unechoed:
            return None
        others = self._others.places
        first = self._unechoed[0]
        if len(first.confirmed & others.keys()) < min(self._copies, len(others)):
            return None
        self._unechoed.popleft()
        self.size -= size_of(first.activity)
        return first.activity

    def between(self, first: int, last: int) -> list[KeptActivity]:
        """Those that are not echoed yet between two numbers, both included."""
        return [one.activity for one in self._unechoed if first <= one.activity.number <= last]

    def has_of(self, client: int) -> bool:
        """Whether something that a client sent is not echoed yet."""
        return any(one.client == client for one in self._unechoed)

    def wake_ms(self) -> int | None:
        """When others are to be named."""
        return self._due_ms

    def look(self, turn: ServiceTurn) -> None:
        """Name others where those that were named are silent."""
        if self._due_ms is None or self._due_ms > turn.boot_ms:
            return
        others, left = self._others.nodes, AGAIN_BYTES
        needed = min(self._copies, len(others))
        for one in self._unechoed:
            if one.asked_ms + SILENT_MS > turn.boot_ms or left <= 0:
                continue
            lacking = needed - len(one.confirmed.intersection(others))
            one.asked_ms = turn.boot_ms
            if lacking > 0:
                silent = [node for node in others if node not in one.confirmed]
                before = {node: place for place, node in enumerate(one.named)}
                silent.sort(key=lambda node: before.get(node, -1))
                named = silent[: min(lacking, NAMED_MAX)]
                one.named = (*[node for node in one.named if node not in named], *named)
                self.named_again += 1
                body = self._frame(one.activity, named)
                left -= len(body)
                for node in named:
                    turn.tell(node, body, waits=False)
        oldest_ms = min((one.asked_ms for one in self._unechoed), default=None)
        self._due_ms = None if oldest_ms is None else max(oldest_ms + SILENT_MS, turn.boot_ms + AGAIN_MS)

    # -- inside

    def _frame(self, activity: KeptActivity, named: Collection[NodeName]) -> bytes:
        """`after` is shortened where there is no room for all of it."""
        after, confirm = activity.after, tuple(named)
        while True:
            said = ActivitySaid(
                self._start, activity.number, activity.activity, activity.sender, after, confirm
            )  # fmt: skip
            body = pack(said)
            if len(body) <= FRAME_BYTES_MAX or not after:
                return body
            after = dict(list(after.items())[: len(after) // 2])

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        numbers = [one.activity.number for one in self._unechoed]
        must(numbers == list(range(self.last - len(numbers) + 1, self.last + 1)), "the last numbers wait, in order")
        must(self.size == sum(size_of(one.activity) for one in self._unechoed), "their bytes are counted")
