"""A task that belongs to no other one: it goes on until it is told to end, whichever tasks begin and end it.

Knows: how trio and asyncio run such a task.  Does not know what it does.

Invariant: when `end` returns the task is over; when `end` is cancelled the task is being cancelled, too.

A task group would do while it is entered and left by one task. Start-up and shutdown of a web framework are often two.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final

import anyio


class BackgroundTask:
    """Runs `work` from now on. To be made inside an event loop."""

    def __init__(self, work: Callable[[], Awaitable[None]], on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called when it is over, for whatever reason: a loop of asyncio that ends cancels all tasks."""
        self._work: Final = work
        self._on_end: Final = on_end
        self._scope: Final = anyio.CancelScope()
        self._over: Final = anyio.Event()
        self._failure = _Failure()
        self._task: Final = self._start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def end(self) -> None:
        """Cancel it, and wait until it is over, also in a scope that is cancelled. May be called again.

        Raises:
            Exception: what its work raised.
        """
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._over.wait()
        self._failure.tell()

    def _start(self) -> object:
        """The task, to be kept: asyncio forgets those that nobody holds."""
        trio = sys.modules.get("trio")  # whoever runs it has loaded it
        if trio is not None and trio.lowlevel.in_trio_task():
            return trio.lowlevel.spawn_system_task(self._run)
        task = asyncio.get_running_loop().create_task(self._run())
        task.add_done_callback(lambda _: self._end())  # it may be cancelled before it begins
        return task

    async def _run(self) -> None:
        try:
            with self._failure, self._scope:
                await self._work()
        finally:
            self._end()

    def _end(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self._on_end()


class _Failure:
    """Keeps what the work raised for whoever ends it: a system task of trio that raises would end the whole program."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self._error = error
        return self._error is not None

    def tell(self) -> None:
        """Raise it, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error
