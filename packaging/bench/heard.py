"""Sets on one node, and when watchers on other nodes are told of them: from the answer on, whatever the order.

Knows: which set was answered when, and which watcher had it when.  Does not know how nodes find each other.

Invariant: every watcher was told of every set, once, with every byte; else it raises, and there are no figures.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import attrs
import trio

import distkv
from bench.load import VALUE_BYTES
from bench.servers import Server, ServerError
from distkv.client.async_client import AsyncClient
from distkv.client.watch import Change
from distkv.daemon.failure import first_failure

WATCHED: Final = "bench.heard"
ALL_TOLD_S: Final = 120.0
"""After the last answer."""


@attrs.frozen
class Heard:
    """What was told of some sets."""

    count: int
    watchers: int
    seconds: float
    """From the first set to the last answer."""
    delays_s: Sequence[float]
    """From the answer until a watcher was told: one for each set at each watcher. 0 for one that was told before."""
    busy: float
    """The part of a processor that this process used; near 1 it is what was measured."""


def measure_idle(writer: Server, listener: Server, *, seconds: float, pause_s: float) -> Heard:
    """One set after another, each awaited by a watcher; before each a random pause, so long on average.

    Raises:
        ServerError: one was not told in time, or not as it was set.
    """
    return _run(writer, [listener], _Idle(seconds, pause_s))


def measure_rate(writer: Server, listeners: Sequence[Server], *, seconds: float, per_second: float) -> Heard:
    """So many sets a second, of another path each; nobody waits for those before.

    Raises:
        ServerError: one was not told in time, or not as it was set.
    """
    return _run(writer, listeners, _Steady(round(seconds * per_second), per_second))


# -- inside -------------------------------------------------------------------------------------------------------


@attrs.define
class _Board:
    """Who had what when."""

    watchers: int
    answered: dict[int, float] = attrs.field(factory=dict)
    told: dict[tuple[int, int], float] = attrs.field(factory=dict)
    news: trio.Event = attrs.field(factory=trio.Event)
    """That something was told."""

    async def set(self, client: AsyncClient, number: int) -> None:
        await client.set(f"{WATCHED}.{_name(number)}", _value(number))
        self.answered[number] = time.perf_counter()

    async def listen(
        self, client: AsyncClient, watcher: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with client.watch(WATCHED) as changes:
            task_status.started()
            async for change in changes:
                self.note(watcher, change)

    def note(self, watcher: int, change: object) -> None:
        now = time.perf_counter()
        if not isinstance(change, Change):
            raise ServerError(f"watcher {watcher} was told {change}")
        number = int(str(change.path[-1])[1:])
        if change.value != _value(number) or (watcher, number) in self.told:
            raise ServerError(f"watcher {watcher} was told again, or wrongly: {change}")
        self.told[watcher, number] = now
        self.news.set()

    async def wait_told(self) -> None:
        """Until every watcher has every set that was answered."""
        with trio.move_on_after(ALL_TOLD_S):
            while len(self.told) < self.watchers * len(self.answered):
                self.news = trio.Event()
                await self.news.wait()
            return
        missed = self.watchers * len(self.answered) - len(self.told)
        raise ServerError(f"{missed} of {len(self.answered)} sets were not told within {ALL_TOLD_S:g} s")


@attrs.frozen
class _Idle:
    seconds: float
    pause_s: float

    async def write(self, client: AsyncClient, board: _Board) -> None:
        chance, number = random.Random(0), 0
        end = trio.current_time() + self.seconds
        while trio.current_time() < end:
            await trio.sleep(chance.uniform(0, 2 * self.pause_s))
            await board.set(client, number)
            await board.wait_told()
            number += 1


@attrs.frozen
class _Steady:
    count: int
    per_second: float

    async def write(self, client: AsyncClient, board: _Board) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(self.count):
                await trio.sleep_until(began + number / self.per_second)
                nursery.start_soon(board.set, client, number)


def _run(writer: Server, listeners: Sequence[Server], writing: _Idle | _Steady) -> Heard:
    try:
        return trio.run(_measure, writer, listeners, writing)
    except BaseExceptionGroup as group:
        raise ServerError(f"sets on {writer.name}: {first_failure(group)}") from None


async def _measure(writer: Server, listeners: Sequence[Server], writing: _Idle | _Steady) -> Heard:
    board = _Board(len(listeners))
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        for watcher, listener in enumerate(listeners):
            there = await stack.enter_async_context(distkv.open_client("127.0.0.1", listener.port))
            await nursery.start(board.listen, there, watcher)
        here = await stack.enter_async_context(distkv.open_client("127.0.0.1", writer.port))
        began, used = time.perf_counter(), time.process_time()
        await writing.write(here, board)
        seconds = time.perf_counter() - began
        busy = (time.process_time() - used) / seconds
        await board.wait_told()
        nursery.cancel_scope.cancel()
    delays = [max(at - board.answered[number], 0.0) for (_, number), at in board.told.items()]
    return Heard(len(board.answered), len(listeners), seconds, delays, busy)


def _name(number: int) -> str:
    return f"n{number:08d}"


def _value(number: int) -> str:
    return _name(number).ljust(VALUE_BYTES, "x")
