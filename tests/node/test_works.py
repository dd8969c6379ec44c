"""Slow work of services on threads: how many at a time, and what becomes of it when the node ends.

Knows: the threads.  Does not know a service.
"""

from __future__ import annotations

import threading
from collections import Counter

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from distkv.core.ready import Work, WorkDone
from distkv.engine.faults import Faults
from distkv.engine.works import THREADS, Works
from distkv.errors import BusyError, InternalError, NotFoundError
from tests.node.nodes import until


class Gate:
    """Jobs that end when they may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.begun = 0

    def job(self) -> int:
        self.begun += 1
        self.may_end.wait(60)
        return self.begun


@pytest.mark.trio
async def test_few_threads_work_at_a_time_and_all_is_done_in_the_end() -> None:
    done: list[WorkDone] = []
    works, gate = Works(done.append, Faults(Counter())), Gate()
    works.start(Work(1, "early", lambda: "wanted before the node ran"))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            works.begin(nursery)
            await until(lambda: bool(done), 0.005)
            assert done == [WorkDone("early", 1, "wanted before the node ran")]
            for number in range(THREADS + 3):
                works.start(Work(number, "x", gate.job))
            await until(lambda: gate.begun == THREADS, 0.005)
            await wait_all_tasks_blocked(0.02)
            assert gate.begun == THREADS
            gate.may_end.set()
    assert len(done) == THREADS + 4


@pytest.mark.trio
async def test_what_a_job_raises_is_its_result() -> None:
    done: dict[int, object] = {}
    counters = Counter[str]()
    works = Works(lambda one: done.update({one.id: one.result}), Faults(counters))
    async with trio.open_nursery() as nursery:
        works.begin(nursery)
        for number, error in enumerate((NotFoundError("none"), KeyError("nobody foresaw this"))):
            works.start(Work(number, "x", lambda error=error: raising(error)))  # type: ignore[misc]
    assert [type(done[number]) for number in range(2)] == [NotFoundError, InternalError]
    assert counters["faults_contained"] == 1


@pytest.mark.trio
async def test_work_for_which_no_thread_can_be_begun_is_refused_as_busy() -> None:
    done, counters = list[WorkDone](), Counter[str]()
    works = Works(done.append, Faults(counters))
    async with trio.open_nursery() as nursery:
        works.begin(nursery)
        works.start(Work(1, "x", lambda: raising(RuntimeError("can't start new thread"))))
    assert [type(one.result) for one in done] == [BusyError]
    assert not counters["faults_contained"]


def raising(error: Exception) -> object:
    raise error


@pytest.mark.trio
async def test_node_ends_without_waiting_for_work() -> None:
    gate, done = Gate(), list[WorkDone]()
    works = Works(done.append, Faults(Counter()))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            works.begin(nursery)
            works.start(Work(1, "x", gate.job))
            await until(lambda: gate.begun == 1, 0.005)
            nursery.cancel_scope.cancel()
    gate.may_end.set()
    assert done == []
