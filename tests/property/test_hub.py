"""Any watchers that stall, go on, come and go while changes come: each is told all that it has to be, or to begin anew.

And who waits longest is told next.

Knows: the hub, and watchers that do what those of a connection do.  Does not know nodes or frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from distkv.config import Limits
from distkv.engine.feeds import ChangeBatch, Feeds, Push, SharedChange
from distkv.engine.hub import Hub, wait
from distkv.engine.shared_queue import BATCH_BYTES
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import NAMES_MAX, Path

LIMITS = Limits(watch_changes=6, watch_bytes=3000)
RESYNC = -1

NAMES = st.lists(st.sampled_from("ab"), max_size=3).map(Path)
CHANGES = st.tuples(st.just("change"), st.lists(st.tuples(NAMES, st.integers(0, 400)), min_size=1, max_size=9))
COMES = st.tuples(st.just("comes"), st.tuples(NAMES, st.integers(0, 1), st.integers(1, 3)))
OTHER = st.tuples(st.sampled_from(("stalls", "goes on", "goes")), st.integers(0, 5))
STEPS = st.lists(CHANGES | COMES | OTHER, max_size=30)


@attrs.define(eq=False)
class Connection:
    """One watch, as `services.watch` runs it, that may stall."""

    hub: Hub
    path: Path
    depths: tuple[int, int]
    begin: int
    told: list[int] = attrs.field(factory=list)
    is_free: trio.Event = attrs.field(factory=trio.Event)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def run(self) -> None:
        watcher = self.hub.add(self.path, *self.depths, self.begin, self.push)
        try:
            with self.scope:
                while True:
                    await self.is_free.wait()
                    if watcher.is_lost:
                        self.told.append(RESYNC)
                        watcher.begin_again()
                    elif taken := watcher.take().items:
                        self.told += [change.position for change in taken]
                    else:
                        await wait(watcher)
        finally:
            self.hub.remove(self.path, watcher)

    def push(self, batch: ChangeBatch) -> bool:
        if self.is_free.is_set():
            self.told += [change.position for change in batch.items]
        return self.is_free.is_set()

    def stall(self) -> None:
        if self.is_free.is_set():  # else whoever waits for it already would never hear of its successor
            self.is_free = trio.Event()

    def wants(self, path: Path) -> bool:
        low, high = self.depths
        return path[: len(self.path)] == self.path and low <= len(path) - len(self.path) <= high


def change(position: int, path: Path, size: int) -> SharedChange:
    event = Event(path, Kind.SET, bytes(size), ((NodeName("a"), Tick(position)),), Tock(position), 1.0)
    return SharedChange(position, position, event, True, None)


@given(STEPS)
def test_watcher_is_told_every_change_once_and_in_order_or_to_resynchronise(
    steps: Sequence[tuple[str, object]],
) -> None:
    trio.run(_check, steps)


async def _check(steps: Sequence[tuple[str, object]]) -> None:
    hub = Hub(LIMITS)
    paths: dict[int, Path] = {}
    connections: list[Connection] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        for kind, what in steps:
            match kind, what:
                case "change", list(some):
                    for path, size in some:
                        paths[len(paths) + 1] = path
                        hub.hold(change(len(paths), path, size))
                    hub.deliver(len(paths) - 1)
                case "comes", (path, low, high):
                    connections.append(Connection(hub, path, (low, high), len(paths)))
                    connections[-1].is_free.set()
                    nursery.start_soon(connections[-1].run)
                case "stalls", int(number) if connections:
                    connections[number % len(connections)].stall()
                case "goes on", int(number) if connections:
                    connections[number % len(connections)].is_free.set()
                case "goes", int(number) if connections:
                    connections.pop(number % len(connections)).scope.cancel()
            await wait_all_tasks_blocked()
        hub.deliver(len(paths))
        for connection in connections:
            connection.is_free.set()
        await wait_all_tasks_blocked()
        for connection in connections:
            _judge(connection, [at for at, path in paths.items() if connection.wants(path) and at > connection.begin])
        assert hub.count == len(connections)
        nursery.cancel_scope.cancel()
    assert hub.count == 0


def _judge(connection: Connection, due: Sequence[int]) -> None:
    """Between two resyncs nothing is left out, and what was left out is followed by a resync."""
    last = -1  # the place in `due` of what was told last; what a resync covers ends before what is told next
    was_resync = False
    for position in connection.told:
        if position == RESYNC:
            was_resync = True
            continue
        place = due.index(position)
        assert place == last + 1 or (was_resync and place > last)
        last, was_resync = place, False
    assert last == len(due) - 1 or was_resync


# -- whose turn it is ---------------------------------------------------------------------------------------------

NEWS = st.lists(st.sampled_from("abcd"), max_size=12)
"""Below which names something changed, each time so much that it is a batch of its own."""


@given(NEWS, st.lists(NEWS, max_size=6))
def test_queue_that_waited_longest_is_told_next_whatever_comes(first: list[str], later: list[list[str]]) -> None:
    feeds = Feeds(Limits(watch_changes=1000, watch_bytes=1 << 30))
    left, turns = Counter[str](), list[str]()
    positions, meanwhile = count(1), iter(later)

    def come(names: list[str]) -> None:
        for name in names:
            left[name] += 1
            if name not in turns:
                turns.append(name)
            feeds.hold(change(position := next(positions), Path([name]), BATCH_BYTES))
            feeds.deliver(position)

    def taker(name: str) -> Push:
        def push(batch: ChangeBatch) -> bool:
            assert name == turns.pop(0)
            left[name] -= len(batch.items)
            come(next(meanwhile, []))
            if left[name] and name not in turns:
                turns.append(name)
            return True

        return push

    for name in "abcd":
        feeds.add(Path([name]), 0, NAMES_MAX, 0, taker(name)).is_waiting = True
    come(first)
    for _ in feeds.news.turns():
        pass
    assert not turns
