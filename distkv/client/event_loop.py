"""What trio and asyncio do each in its own way, and anyio for both only by more turns of the loop.

Knows: which of them runs, its clock, how it tells that something can be read, and how a task sleeps and is woken.
Does not know what is read, nor who wakes whom.

Invariant: a task that was woken goes on, whether it slept already or not.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

import anyio
import anyio.lowlevel
import attrs
from anyio.abc import ByteStream, SocketAttribute


class Sleeper(Protocol):
    """One sleep of one task, for 2 to 6 us less than an event of anyio."""

    async def sleep(self) -> None:
        """Until it is woken, which may have happened before."""

    def wake(self) -> None:
        """End the sleep. May be called again; without effect when the sleep was cancelled."""


def is_trio() -> bool:
    """Whether trio runs this; else asyncio does."""
    trio = sys.modules.get("trio")  # whoever runs it has loaded it
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def running_task() -> object:
    """The task that runs this."""
    if is_trio():
        import trio

        return trio.lowlevel.current_task()
    return asyncio.current_task()


Work: TypeAlias = Callable[[], Awaitable[None]]


@attrs.frozen(eq=False)
class HomeLoop:
    """The loop that ran `home_loop`, and what its tasks do in its way."""

    clock: Callable[[], float]
    """In seconds."""
    is_here: Callable[[], bool]
    """Whether whoever asks is run by it."""
    check_cancelled: Work
    """What a task awaits to be ended here when it is cancelled, without a turn of the loop. That of anyio finds out
    each time which loop runs, for a microsecond or two."""
    start: Callable[[Work], None]
    """Has work done by it, soon, from wherever this is called, such as while garbage is collected. Nothing happens when
    the loop is over."""
    new_sleeper: Callable[[], Sleeper]
    """Makes what its tasks can sleep with."""


def home_loop() -> HomeLoop:
    """The loop that runs this."""
    return _trio_loop() if is_trio() else _asyncio_loop()


def _trio_loop() -> HomeLoop:
    import trio

    token = trio.lowlevel.current_trio_token()

    def start(work: Work) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(trio.lowlevel.spawn_system_task, work)

    is_here = _check_of(trio.lowlevel.current_trio_token)
    return HomeLoop(trio.current_time, is_here, trio.lowlevel.checkpoint_if_cancelled, start, TrioSleeper)


def _asyncio_loop() -> HomeLoop:
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Future[None]]()

    def begin(work: Work) -> None:
        task = asyncio.ensure_future(work(), loop=loop)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def start(work: Work) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(begin, work)

    is_here = _check_of(asyncio.get_running_loop)
    return HomeLoop(loop.time, is_here, anyio.lowlevel.checkpoint_if_cancelled, start, AsyncioSleeper)


def _check_of(find: Callable[[], object]) -> Callable[[], bool]:
    """Tells whether the loop that is found is the one that runs this."""
    loop = find()

    def is_here() -> bool:
        try:
            return find() is loop
        except RuntimeError:
            return False

    return is_here


def plain_socket(stream: ByteStream) -> socket.socket:
    """A socket that never waits, for what a stream of anyio is connected to, and that lives as long as the stream.

    asyncio does not let its own be read beside a transport, so this is a second descriptor for the same connection.
    """
    found: Any = stream.extra(SocketAttribute.raw_socket)
    line = found if isinstance(found, socket.socket) else socket.socket(fileno=os.dup(found.fileno()))
    line.setblocking(False)
    return line


async def attend(line: socket.socket, read: Callable[[], None]) -> None:
    """Call `read`, which must not raise, whenever something can be read, until cancelled."""
    if is_trio():
        while True:
            await anyio.wait_readable(line)
            read()
    loop = asyncio.get_running_loop()
    loop.add_reader(line, read)
    try:
        await anyio.sleep_forever()
    finally:
        loop.remove_reader(line)


class TrioSleeper:
    """A sleep under trio."""

    __slots__ = ("_is_woken", "_task")

    def __init__(self) -> None:
        self._is_woken = False
        self._task: object = None

    async def sleep(self) -> None:
        """Until it is woken, which may have happened before."""
        import trio

        if self._is_woken:
            await trio.lowlevel.checkpoint()
            return
        self._task = trio.lowlevel.current_task()

        def leave(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def wake(self) -> None:
        """End the sleep. May be called again; without effect when the sleep was cancelled."""
        import trio

        self._is_woken = True
        task, self._task = self._task, None
        if isinstance(task, trio.lowlevel.Task):
            trio.lowlevel.reschedule(task)


class AsyncioSleeper:
    """A sleep under asyncio."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: Final = asyncio.get_running_loop().create_future()

    async def sleep(self) -> None:
        """Until it is woken, which may have happened before."""
        await self._future

    def wake(self) -> None:
        """End the sleep. May be called again; without effect when the sleep was cancelled."""
        if not self._future.done():
            self._future.set_result(None)
