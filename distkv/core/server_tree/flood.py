"""Frames to all of one service, over the edges of the server tree: what each node says reaches every other one once, in
its order.

Knows: the frames of late, what each neighbour has of them, and how much it has not acknowledged.  Does not know why
there is an edge, what a frame says, nor the frames of other services.

Invariant: of each origin a node takes frames with rising numbers only, so none twice and none out of order. What is
kept is bounded. What an edge could not take in time is counted, and its other end is told that it is gone
(docs/protocol, TREE-10 to TREE-13).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import attrs

from distkv.core.jump_limit import JumpLimit
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import evolve
from distkv.wire.edges import FRAME_BYTES_MAX, FRAMES_MAX, START_MAX, FrameNumbers, TreeFrame

KEPT_FRAMES: Final = 4096
"""So many frames are kept for neighbours that are slow, or that come back."""
KEPT_BYTES: Final = 4 << 20
FRAME_OVERHEAD: Final = 128
"""What a frame counts besides its body."""
WINDOW_FRAMES: Final = 256
"""So many may be under way on an edge without an acknowledgement."""
WINDOW_BYTES: Final = 256 << 10
"""When so much is under way on an edge, nothing more is said there."""
OWED_FRAMES: Final = 32
"""After so many frames on an edge all are acknowledged that came there."""
OWED_BYTES: Final = 32 << 10
"""The same after so many bytes."""
ITEM_BYTES: Final = 64 << 10
"""An item with so much is full."""

START_JUMP: Final = 1 << 40
"""A start is so many milliseconds after those that were heard of, at the most: 34 years."""

NOTHING: Final = (0, 0)


@attrs.define(slots=True)
class FloodCounts:
    """What happened since the start, to frames of all services."""

    frames_in: int = 0
    frames_again: int = 0
    """Frames that were here already."""
    frames_missed: int = 0
    """Frames of other origins that never came."""
    frames_overtaken: int = 0
    """Frames that a neighbour did not take in before they had to go."""


@attrs.frozen(slots=True)
class _Kept:
    frame: TreeFrame
    came_ms: int
    size: int


@attrs.define(slots=True)
class _Way:
    """To one neighbour."""

    have: dict[NodeName, tuple[int, int]]
    since_ms: int
    """When the neighbour began to run: nothing older is for it."""
    position: int
    """The next kept frame that it is to be told."""
    may_lack: bool
    """Whether it may lack what is not kept here, and is to be told that this is gone."""
    under_way: deque[int] = attrs.field(factory=deque)
    """The sizes of what it has not acknowledged."""
    bytes_under_way: int = 0
    owed: int = 0
    """So much came from the neighbour that is not acknowledged, and has so many bytes."""
    owed_bytes: int = 0
    later: dict[NodeName, TreeFrame] = attrs.field(factory=dict)
    """Of origins of which it tells an earlier start than the last: a frame of that one."""

    @property
    def is_open(self) -> bool:
        """Whether it may be told something now."""
        return len(self.under_way) < WINDOW_FRAMES and self.bytes_under_way < WINDOW_BYTES

    def leaves(self, size: int) -> None:
        self.under_way.append(size)
        self.bytes_under_way += size

    def settle(self) -> int:
        count, self.owed, self.owed_bytes = self.owed, 0, 0
        return count


class Flood:
    """The frames of one service at one node. All times are monotonic milliseconds."""

    def __init__(
        self,
        me: NodeName,
        is_registered: Callable[[NodeName], bool],
        counts: FloodCounts | None = None,
        *,
        tells_gone: bool = True,
    ) -> None:
        """`tells_gone`: whether a neighbour is told what it cannot get any more."""
        self._tells_gone: Final = tells_gone
        self.counts: Final = FloodCounts() if counts is None else counts
        self._me: Final = me
        self._is_registered: Final = is_registered
        self._own = NOTHING
        """The start of this node, and the number of its last frame."""
        self._last: Final = dict[NodeName, tuple[int, int]]()
        self._starts: Final = JumpLimit(START_JUMP)
        self._kept: Final = deque[_Kept]()
        self._bytes = 0
        self._first = 0
        """The position of the oldest one that is kept."""
        self._ways: Final = dict[int, _Way]()

    def begin(self, start: int) -> None:
        """Frames of this node are of this start from now on."""
        self._own = min(max(start, self._own[0] + 1), START_MAX), 0

    def have(self) -> FrameNumbers:
        """What was told last by each origin."""
        return {origin: number for origin, number in self._last.items() if self._is_registered(origin)}

    # -- edges

    def open(self, edge: int, have: FrameNumbers, since_ms: int) -> None:
        """There is another neighbour, which has this, and is to be told what else was said since it began to run."""
        mine = have.get(self._me, NOTHING)
        if mine > self._own and self._starts.take(mine[0], self._own[0]):
            self._begin_above(mine[0])
        self._ways[edge] = _Way(dict(have), since_ms, self._first, self._tells_gone)

    def close(self, edge: int) -> None:
        """The neighbour is gone."""
        self._ways.pop(edge, None)

    def all_due(self) -> Iterator[tuple[int, tuple[TreeFrame, ...], FrameNumbers]]:
        """What is to be sent now on each edge, item by item: frames, and which are gone; it counts as sent."""
        end = self._first + len(self._kept)
        for edge, way in self._ways.items():
            if way.position < end or way.later:
                for frames in self.due(edge):
                    yield edge, frames, {}
            if way.may_lack and (gone := self.gone(edge)):
                yield edge, (), gone

    def due(self, edge: int) -> Iterator[tuple[TreeFrame, ...]]:
        """What is to be sent on an edge now, item by item; it counts as sent."""
        way = self._ways.get(edge)
        while way is not None and way.later:
            way.leaves(FRAME_OVERHEAD)
            yield (way.later.popitem()[1],)
        while way is not None and way.is_open:
            found, size = list[TreeFrame](), 0
            self._catch_up(way)
            for kept in islice(self._kept, way.position - self._first, None):
                way.position += 1
                frame = kept.frame
                number, has = _of(frame), way.have.get(frame.origin, NOTHING)
                is_odd = frame.start < has[0] and number == self._last.get(frame.origin)
                if kept.came_ms < way.since_ms or (number <= has and not is_odd):
                    continue  # of a later start than we know a neighbour tells us when it hears of an earlier one
                way.have[frame.origin] = max(number, has)
                found.append(frame)
                size += kept.size
                way.leaves(kept.size)
                if len(found) == FRAMES_MAX or size >= ITEM_BYTES:
                    break
            if not found:
                return
            yield tuple(found)

    def gone(self, edge: int) -> FrameNumbers:
        """What the neighbour lacks and cannot be told here, when it was told all else; it counts as sent."""
        way = self._ways.get(edge)
        if way is None or not way.may_lack or not way.is_open or way.position < self._first + len(self._kept):
            return {}
        way.may_lack = False
        found = {origin: last for origin, last in self.have().items() if last > way.have.get(origin, NOTHING)}
        if found:
            way.have |= found
            way.leaves(FRAME_OVERHEAD)
        return found

    def acked(self, edge: int, count: int) -> None:
        """The neighbour took so many more."""
        way = self._ways.get(edge)
        while way is not None and way.under_way and count > 0:
            way.bytes_under_way -= way.under_way.popleft()
            count -= 1

    def came(self, edge: int, count: int, size: int) -> int:
        """So much came from a neighbour; how much is to be acknowledged now. It waits until it is worth a word."""
        way = self._ways.get(edge)
        if way is None:
            return count
        way.owed += count
        way.owed_bytes += size
        return way.settle() if way.owed >= OWED_FRAMES or way.owed_bytes >= OWED_BYTES else 0

    def all_owed(self) -> Iterator[tuple[int, int]]:
        """How much is still to be acknowledged on each edge; it counts as acknowledged."""
        for edge, way in self._ways.items():
            if way.owed:
                yield edge, way.settle()

    # -- frames

    def give(self, service: str, body: bytes, now_ms: int) -> TreeFrame:
        """Say something to all.

        Raises:
            ValueError: it is too large.
        """
        if len(body) > FRAME_BYTES_MAX:
            raise ValueError(f"a frame has {len(body)} bytes; the limit is {FRAME_BYTES_MAX}")
        self._own = self._own[0], self._own[1] + 1
        frame = TreeFrame(self._me, *self._own, service, body)
        self._keep(frame, now_ms)
        return frame

    def take(
        self, edge: int, frame: TreeFrame, now_ms: int, is_sound: Callable[[TreeFrame], bool] = lambda _: True
    ) -> bool:
        """A frame came from a neighbour; whether it says something new. One that is not sound is acknowledged, and
        passed on to nobody (docs/protocol, TREE-10)."""
        way, number = self._ways.get(edge), _of(frame)
        if way is None or not self._believe(frame.origin, number):
            return False
        last = self._last.get(frame.origin, NOTHING)
        if frame.start < last[0] and frame.origin != self._me:
            self._tell_later(way, frame.origin, last)
        way.have[frame.origin] = max(number, way.have.get(frame.origin, NOTHING))
        if frame.origin == self._me or number <= last:
            self.counts.frames_again += 1
            return False
        if frame.start == last[0]:
            self.counts.frames_missed += frame.number - last[1] - 1
        self.counts.frames_in += 1
        if not is_sound(frame):
            self._last[frame.origin] = number
            return False
        self._keep(frame, now_ms)
        return True

    def lacked(self, edge: int, gone: FrameNumbers) -> FrameNumbers:
        """A neighbour says that frames of these origins, up to these numbers, are gone; those of them that did not come
        here before. Whoever is told by this node only lacks them, too."""
        way, found = self._ways.get(edge), dict[NodeName, tuple[int, int]]()
        for origin, number in gone.items():
            if way is not None and self._believe(origin, number):
                way.have[origin] = max(number, way.have.get(origin, NOTHING))
                last = self._last.get(origin, NOTHING)
                if origin != self._me and number > last:
                    self._last[origin] = found[origin] = number
                    self.counts.frames_missed += number[1] - (last[1] if number[0] == last[0] else 0)
        if found:
            for other in self._ways.values():
                other.may_lack = self._tells_gone
        return found

    def forget_strangers(self) -> None:
        """Nodes that are registered no more say nothing more. What they said last is remembered here, in case that they
        come back: else what they said before might be told again."""
        for way in self._ways.values():
            for origin in [name for name in way.have if not self._is_registered(name)]:
                del way.have[origin]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._bytes == sum(kept.size for kept in self._kept), "the bytes are those of all that is kept")
        must(len(self._kept) <= KEPT_FRAMES and self._bytes <= KEPT_BYTES, "what is kept is bounded")
        for way in self._ways.values():
            must(way.bytes_under_way == sum(way.under_way), "the bytes under way are those of all that is")
            must(way.position <= self._first + len(self._kept), "nobody was told what is not there")
        numbers = dict[NodeName, tuple[int, int]]()
        for kept in self._kept:
            origin, number = kept.frame.origin, _of(kept.frame)
            must(numbers.get(origin, NOTHING) < number <= self._last[origin], "the numbers of each origin rise")
            numbers[origin] = number

    # -- inside

    def _believe(self, origin: NodeName, number: tuple[int, int]) -> bool:
        """Whether a neighbour is believed that an origin has come so far. If somebody spoke in the name of this node,
        it goes on above that (JUMP-4)."""
        start = number[0]
        if number[1] < 1 or not self._is_registered(origin):
            return False
        if not self._starts.take(start, max(self._last.get(origin, NOTHING)[0], self._own[0])):
            return False
        if origin == self._me and number > self._own:
            self._begin_above(start)
        return True

    def _begin_above(self, start: int) -> None:
        """An earlier start of this node has a later time: the clock went back. What waits was not told yet."""
        self.begin(start + 1)
        for at, kept in enumerate(self._kept):
            if kept.frame.origin == self._me:
                self._own = self._own[0], self._own[1] + 1
                frame = evolve(kept.frame, start=self._own[0], number=self._own[1])
                self._kept[at] = attrs.evolve(kept, frame=frame)
                self._last[self._me] = self._own

    def _tell_later(self, way: _Way, origin: NodeName, last: tuple[int, int]) -> None:
        """A neighbour tells of an earlier start than the last. The clock of the origin went back, perhaps: so what it
        said in the later start is to come to it, and it goes on above that."""
        if way.have.get(origin, NOTHING) < last:
            way.have[origin] = last
            frame = next((kept.frame for kept in reversed(self._kept) if kept.frame.origin == origin), None)
            if frame is not None and frame.start == last[0]:
                way.later[origin] = frame

    def _keep(self, frame: TreeFrame, now_ms: int) -> None:
        self._last[frame.origin] = _of(frame)
        kept = _Kept(frame, now_ms, FRAME_OVERHEAD + len(frame.body))
        self._kept.append(kept)
        self._bytes += kept.size
        while len(self._kept) > KEPT_FRAMES or self._bytes > KEPT_BYTES:
            self._bytes -= self._kept.popleft().size
            self._first += 1

    def _catch_up(self, way: _Way) -> None:
        """What had to go before it was told is lost to this neighbour, if no other way brings it."""
        if way.position < self._first:
            self.counts.frames_overtaken += self._first - way.position
            way.position, way.may_lack = self._first, self._tells_gone


def _of(frame: TreeFrame) -> tuple[int, int]:
    return frame.start, frame.number
