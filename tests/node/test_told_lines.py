"""What all clients of the activity network are told: what leaves at once, and what leaves together.

Knows: readers that take everything at once.  Does not know connections.
"""

from __future__ import annotations

from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.core.activity.requests import ActivityItem
from distkv.services.activity.queue import FEW, Listening, ToldBatch, ToldLines

READ_S: Final = 0.001
"""So long it takes to tell somebody."""


class Reader:
    """Somebody who takes all that he is told."""

    def __init__(self, told: ToldLines, clock: MockClock) -> None:
        self.batches: Final = list[int]()
        """How many lines each time."""
        self.times: Final = list[float]()
        self._told: Final = told
        self._clock: Final = clock
        self._listening: Final[Listening] = told.join(self._push, list[None]().clear)
        self._listening.is_waiting = True

    def _push(self, batch: ToldBatch) -> bool:
        self.times.append(trio.current_time())
        self.batches.append(len(batch.items))
        if len(self.times) == 1:
            self._clock.jump(READ_S)
            offer(self._told, 2)
        return True


def offer(told: ToldLines, number: int) -> None:
    told.offer(ActivityItem("a.1", number, b"{}"))
    told.tell()


def add_others(told: ToldLines, count: int) -> None:
    """So many who take all that they are told."""
    for _ in range(count):
        told.join(lambda _: True, list[None]().clear).is_waiting = True


@pytest.mark.trio
@pytest.mark.parametrize("others", [0, FEW])
async def test_line_leaves_at_once_when_nothing_was_told_before(autojump_clock: MockClock, others: int) -> None:
    told = ToldLines(100, 100_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(told.run)
        await trio.sleep(1)
        reader, began_s = Reader(told, autojump_clock), trio.current_time()
        add_others(told, others)
        offer(told, 1)
        await wait_all_tasks_blocked()
        assert reader.times == [began_s]
        nursery.cancel_scope.cancel()


@pytest.mark.trio
@pytest.mark.parametrize("others", [0, FEW])
async def test_lines_that_come_while_others_are_told_leave_together_with_those_that_come_soon(
    autojump_clock: MockClock, others: int
) -> None:
    told = ToldLines(100, 100_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(told.run)
        reader = Reader(told, autojump_clock)
        add_others(told, others)
        offer(told, 1)
        await trio.sleep(READ_S / 2)
        offer(told, 3)
        await trio.sleep(1)
        assert reader.batches == [1, 2]
        nursery.cancel_scope.cancel()


def test_few_are_told_without_a_task() -> None:
    told, batches = ToldLines(100, 100_000), list[int]()

    async def tell() -> None:
        told.join(lambda batch: batches.append(len(batch.items)) is None, batches.clear).is_waiting = True
        told.offer(ActivityItem("a.1", 1, b"{}"))
        offer(told, 2)

    trio.run(tell)
    assert batches == [2]
