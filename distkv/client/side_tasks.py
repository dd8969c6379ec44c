"""Tasks beside the one that starts them, which end before it goes on.

Knows: that asyncio, when its loop ends, cancels tasks that have not begun.  Does not know what they do.

Invariant: nothing that was to be done is left without a word of Python about it: the end of a program is silent.

A task group of anyio calls what is started at once, and awaits it in the task's first step. When a program ends before
that, Python would warn its user of a coroutine that was never awaited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup


class SideTasks:
    """As a task group of anyio; `side_tasks` makes it."""

    def __init__(self, group: TaskGroup) -> None:
        self._group: Final = group
        self._works: list[Coroutine[Any, Any, None]] = []

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done by a task of its own, soon."""
        self._works = [each for each in self._works if getattr(each, "cr_frame", None) is not None]  # not yet done
        self._works.append(work)
        self._group.start_soon(lambda: work)

    def cancel(self) -> None:
        """Cancel all of them, and whoever waits in the block."""
        self._group.cancel_scope.cancel()

    def close(self) -> None:
        """All tasks are over: what none of them began is not done any more."""
        for work in self._works:
            work.close()


@asynccontextmanager
async def side_tasks() -> AsyncIterator[SideTasks]:
    """Tasks that are over when the block is left; when one of them fails, the others and the block are cancelled.

    Raises:
        ExceptionGroup: of what block and tasks raised.
    """
    found: SideTasks | None = None
    try:
        async with anyio.create_task_group() as group:
            found = SideTasks(group)
            yield found
    finally:
        if found is not None:
            found.close()
