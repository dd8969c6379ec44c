"""Keeps one session alive under trio and asyncio, in a task and on a connection of its own.

Knows: tasks, streams, which address comes next.  Does not know what is asked (`holding`), nor what users see.

Invariant: the task ends when the session is over, and then nobody waits any more. The time of the session is watched
also while no node can be reached.

A node that does not answer is left for the next address in time: the session outlives its node.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import anyio

from distkv.client import failures, forks
from distkv.client.addresses import Reach
from distkv.client.async_stream import GreetedStream, close, open_first, receive
from distkv.client.background import BackgroundTask
from distkv.client.boot_clock import boot_ms
from distkv.client.holding import Holding
from distkv.client.session_talk import SessionTalk
from distkv.client.side_tasks import side_tasks
from distkv.client.token_wish import TokenNews
from distkv.errors import DistkvError
from distkv.wire.token_replies import TokenReply

Found = TypeVar("Found")


class SessionTask:
    """The task, and how others get at the session. To be made inside an event loop."""

    def __init__(self, reach: Reach, holding: Holding, on_change: Callable[[], None]) -> None:
        """`on_change` is called after whatever happened."""
        self._talk: Final = SessionTalk(reach, holding)
        self._on_change: Final = on_change
        self._changed = anyio.Event()
        self.news: Final = TokenNews()
        self._background = self._begin()
        forks.tell_child(self)

    def do(self, what: Callable[[Holding, int], Found]) -> Found:
        """Ask the machine for something; what it says."""
        found = what(self._talk.holding, boot_ms())
        self._tell()
        return found

    def read(self, what: Callable[[Holding, int], Found]) -> Found:
        """Look at the machine."""
        return what(self._talk.holding, boot_ms())

    async def wait(self, condition: Callable[[TokenNews], bool]) -> None:
        """Until something is so; it has to become so, at the latest when all is over.

        A loop of asyncio that ends cancels all tasks, ours as well as those that hold tokens. These may then still
        release them, so the task is begun anew.
        """
        while not (condition(self.news) or self.news.is_over):
            changed = self._changed
            if self._background.is_over:
                await self._background.end()  # which raises what it failed by
                self._background = self._begin()
            await changed.wait()

    def wake(self) -> None:
        """Have all who wait look again."""
        old, self._changed = self._changed, anyio.Event()
        old.set()

    async def end(self) -> None:
        """End the task, whatever it does."""
        await self._background.end()

    def leave_to_parent(self) -> None:
        """In a child, which has no such loop: the session is the parent's, and over for us."""
        self._talk.leave_to_parent()
        self.news.disown()

    # -- inside

    def _begin(self) -> BackgroundTask:
        return BackgroundTask(self._serve, self.wake)

    def _tell(self) -> None:
        self.news.take(self._talk.holding.take_news())
        self.wake()
        self._on_change()

    async def _serve(self) -> None:
        async with side_tasks() as tasks:
            tasks.start(self._watch_time())
            while not self._talk.holding.is_over:
                with anyio.CancelScope() as scope:
                    tasks.start(self._end_with_session(scope))
                    await self._connect_and_talk()
                scope.cancel()
            tasks.cancel()

    async def _end_with_session(self, scope: anyio.CancelScope) -> None:
        """Cancel it when the session is over, whatever it waits for; it may have ended before."""
        while not self._talk.holding.is_over and not scope.cancel_called:
            await self._changed.wait()
        scope.cancel()

    async def _watch_time(self) -> None:
        while not self._talk.holding.is_over:
            changed = self._changed
            with anyio.move_on_after(self._talk.wait_ms / 1000) as scope:
                await changed.wait()
            if scope.cancelled_caught:
                self.do(Holding.woken)

    async def _connect_and_talk(self) -> None:
        try:
            line: GreetedStream[int] = await open_first([self._talk.address], self._talk.connect_s)
            try:
                await self._converse(line)
            finally:
                await close(line.stream)
        except DistkvError as error:
            pause_s = self._talk.next_address()
            self._lose(error)
            if pause_s:
                await anyio.sleep(pause_s)

    def _lose(self, error: DistkvError) -> None:
        self.do(lambda holding, now_ms: holding.disconnected(error, now_ms))

    async def _converse(self, line: GreetedStream[int]) -> None:
        """Move questions and answers until the connection breaks, and raise why."""
        self.do(Holding.connected)
        failure: list[DistkvError] = []
        async with side_tasks() as tasks:

            async def hear() -> None:
                try:
                    while True:
                        self._hear(line, await receive(line.stream, line.name))
                except DistkvError as error:
                    failure.append(error)
                tasks.cancel()

            tasks.start(hear())
            while not self._talk.holding.wants_other_node:
                changed = self._changed
                await self._send(line)
                await changed.wait()
            failure.append(failures.silent(line.name))
            tasks.cancel()
        raise failure[0]

    async def _send(self, line: GreetedStream[int]) -> None:
        frames = [line.conversation.ask(question, id) for id, question in self._talk.take_questions()]
        if frames:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # whoever reads will see it too
                await line.stream.send(b"".join(frames))

    def _hear(self, line: GreetedStream[int], data: bytes) -> None:
        for id, answer in self._talk.answers(line.conversation.feed(data), line.name):
            self._answer(id, answer)
        if line.conversation.failure is not None:
            raise line.conversation.failure

    def _answer(self, id: int, result: TokenReply | DistkvError) -> None:
        self.do(lambda holding, now_ms: holding.answered(id, result, now_ms))
