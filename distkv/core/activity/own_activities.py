"""The activities of this node's own clients, until they are echoed.

Knows: what was not said yet, who has confirmed each, who is named to do so, and when others are.  Does not know who
hears the echo.

What a frame costs each node hardly depends on how many activities are in it. So while some are under way those that
come meanwhile wait, and leave together.

Invariant: they are echoed in the order of their numbers, each when as many other nodes as there must be have it. (One
that is confirmed only by its neighbour is lost when both die.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final

import attrs

from distkv.core.activity.copy_nodes import CopyNodes
from distkv.core.activity.origins import size_of
from distkv.core.activity.other_listeners import OtherListeners
from distkv.core.ground.turn import ServiceTurn
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.activity_bodies import NAMED_MAX, SAID_MAX, ActivitySaid, KeptActivity, SaidActivity
from distkv.wire.declared import evolve, pack
from distkv.wire.edges import FRAME_BYTES_MAX

GATHER_MS: Final = 2
"""So long an activity waits for others, and for the echo of all that was said before."""
SAID_BYTES: Final = 64 << 10
"""About so much goes into one frame."""
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
    named: tuple[NodeName, ...] = ()
    confirmed: set[NodeName] = attrs.field(factory=set)


class OwnActivities:
    """Those of one start of a node."""

    def __init__(self, start: str, copies: int, others: OtherListeners) -> None:
        self._start: Final = start
        self._copies: Final = copies
        self._nodes: Final = CopyNodes(others)
        self._unechoed: Final = deque[_Unechoed]()
        self.size = 0
        """Of these, in bytes."""
        self.last = 0
        """The number of the last one."""
        self.named_again = 0
        """How often other nodes were named, because the first ones were silent."""
        self._unsaid = 0
        """So many of the last ones are not said yet."""
        self._speak_ms: int | None = None
        """When they are said at the latest."""
        self._due_ms: int | None = None

    def __len__(self) -> int:
        return len(self._unechoed)

    def add(self, activity: KeptActivity, client: int, now_ms: int) -> None:
        """The next one, which is to be said."""
        self.last = activity.number
        self._unechoed.append(_Unechoed(activity, client, now_ms))
        self.size += size_of(activity)
        self._unsaid += 1
        if self._speak_ms is None:
            self._speak_ms = now_ms + GATHER_MS
        if self._due_ms is None:
            self._due_ms = now_ms + SILENT_MS

    def speak(self, turn: ServiceTurn) -> None:
        """Say to all what is not said yet, if nothing is under way, or some of it has waited for long enough."""
        said = len(self._unechoed) - self._unsaid
        if self._speak_ms is None or (said and turn.boot_ms < self._speak_ms):
            return
        named = self._nodes.nodes[: self._copies]
        for part in _parts(islice(self._unechoed, said, None)):
            for one in part:
                one.named = named
            turn.tell_all(self._frame(part, named))
        self._unsaid, self._speak_ms = 0, None

    def confirmed(self, node: NodeName, start: str, numbers: Collection[int]) -> None:
        """A node says that it has these."""
        self._nodes.answered(node)
        if start == self._start and self._unechoed:
            first = self._unechoed[0].activity.number
            for number in numbers:
                if first <= number <= self.last:
                    self._unechoed[number - first].confirmed.add(node)

    def take_echo(self) -> KeptActivity | None:
        """The next one, if enough others have it."""
        if len(self._unechoed) == self._unsaid:
            return None
        others = self._nodes.nodes
        first = self._unechoed[0]
        if len(first.confirmed.intersection(others)) < min(self._copies, len(others)):
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
        """When something is to be said, or others are to be named."""
        due = [ms for ms in (self._speak_ms, self._due_ms) if ms is not None]
        return min(due, default=None)

    def look(self, turn: ServiceTurn) -> None:
        """Name others where those that were named are silent."""
        self._nodes.look(turn.boot_ms)
        if self._due_ms is None or self._due_ms > turn.boot_ms:
            return
        others, left = self._nodes.nodes, AGAIN_BYTES
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
                body = self._frame([one], named)
                left -= len(body)
                for node in named:
                    self._nodes.told(node, turn.boot_ms)
                    turn.tell(node, body, waits=False)
        oldest_ms = min((one.asked_ms for one in self._unechoed), default=None)
        self._due_ms = None if oldest_ms is None else max(oldest_ms + SILENT_MS, turn.boot_ms + AGAIN_MS)

    # -- inside

    def _frame(self, part: Sequence[_Unechoed], named: Collection[NodeName]) -> bytes:
        """`after`, which only one that is alone has, is shortened where there is no room for all of it."""
        items = [SaidActivity(one.activity.activity, one.activity.sender, one.activity.after) for one in part]
        while True:
            body = pack(ActivitySaid(self._start, part[0].activity.number, tuple(items), tuple(named)))
            after = items[0].after
            if len(body) <= FRAME_BYTES_MAX or not after:
                return body
            items = [evolve(items[0], after=dict(list(after.items())[: len(after) // 2]))]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._nodes.check()
        numbers = [one.activity.number for one in self._unechoed]
        must(numbers == list(range(self.last - len(numbers) + 1, self.last + 1)), "the last numbers wait, in order")
        must(self.size == sum(size_of(one.activity) for one in self._unechoed), "their bytes are counted")
        must(0 <= self._unsaid <= len(self._unechoed), "what is not said is not echoed")
        must((self._speak_ms is None) == (self._unsaid == 0), "what is not said has a time")


def _parts(some: Iterator[_Unechoed]) -> Iterator[list[_Unechoed]]:
    """What goes into one frame each, in order."""
    part, size = list[_Unechoed](), 0
    for one in some:
        is_full = len(part) == SAID_MAX or size + size_of(one.activity) > SAID_BYTES
        if part and (is_full or one.activity.after or part[0].activity.after):
            yield part
            part, size = [], 0
        part.append(one)
        size += size_of(one.activity)
    if part:
        yield part
