"""Slow and pure work of services, on threads, so that the node goes on meanwhile.

Knows: how many threads there are, and what becomes of a result.  Does not know what is done, nor how many may wait
(`core.ground.requests`).

Invariant: what is begun has one result, which may be an error, unless the node ends before: then it is abandoned. A
lack of threads refuses one work, as `busy`, and no fault is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from distkv.core.ready import Work, WorkDone
from distkv.engine.faults import Faults
from distkv.engine.scarce import is_lack_of_threads
from distkv.errors import BusyError, DistkvError

THREADS: Final = 2
"""So many work at a time: their own, so that whatever else wants a thread never waits for them."""


class Works:
    """Those of one node."""

    def __init__(self, done: Callable[[WorkDone], object], faults: Faults) -> None:
        """`done` hears of each result, in the thread of the node."""
        self._done: Final = done
        self._faults: Final = faults
        self._limiter: Final = trio.CapacityLimiter(THREADS)
        self._nursery: trio.Nursery | None = None
        self._early: Final[list[Work]] = []
        """What was wanted before the node ran."""

    def begin(self, nursery: trio.Nursery) -> None:
        """The threads belong to this nursery."""
        self._nursery = nursery
        for work in self._early:
            self.start(work)
        self._early.clear()

    def start(self, work: Work) -> None:
        """Begin it, or when a thread is free."""
        if self._nursery is None:
            self._early.append(work)
        else:
            self._nursery.start_soon(self._do, work)

    async def _do(self, work: Work) -> None:
        self._done(WorkDone(work.service, work.id, await self._result(work)))

    async def _result(self, work: Work) -> object:
        try:
            return await trio.to_thread.run_sync(work.job, limiter=self._limiter, abandon_on_cancel=True)
        except DistkvError as error:
            return error
        except Exception as error:
            if isinstance(error, RuntimeError) and is_lack_of_threads(error):
                few = "no thread can be begun: raise the limit (ulimit -u, TasksMax=), or try again later"
                return BusyError(f"the work of {work.service} is not done, because {few}")
            return self._faults.contain(error, f"work of {work.service}")
