"""Keeps one session alive under trio and asyncio, in a task and on a connection of its own.

Knows: tasks, streams, which address comes next.  Does not know what is asked (`holding`), nor what users see.

Invariant: the task ends when the session is over, and then nobody waits any more. The time of the session is watched
also while no node can be reached.

A node that does not answer is left for the next address in time: the session outlives its node.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import anyio

from distkv.client import failures, forks
from distkv.client.addresses import Reach
from distkv.client.async_stream import GreetedStream, close, open_first, receive
from distkv.client.background import BackgroundTask
from distkv.client.boot_clock import STEP_S, boot_ms
from distkv.client.holding import Holding
from distkv.client.protocol import Backoff, read_answer
from distkv.client.questions import Question
from distkv.client.session_thread import TTL_MS
from distkv.client.side_tasks import side_tasks
from distkv.client.token_questions import session_question
from distkv.client.token_wish import TokenNews
from distkv.errors import DistkvError
from distkv.wire.token_replies import TokenReply

Found = TypeVar("Found")


class SessionTask:
    """The task, and how others get at the session. To be made inside an event loop."""

    def __init__(self, reach: Reach, holding: Holding, on_change: Callable[[], None]) -> None:
        """`on_change` is called after whatever happened."""
        self._reach: Final = reach
        self._holding = holding
        self._on_change: Final = on_change
        self._changed = anyio.Event()
        self.news: Final = TokenNews()
        self._turn = 0
        self._pauses: Final = Backoff()
        self._background = self._begin()
        forks.tell_child(self)

    def do(self, what: Callable[[Holding, int], Found]) -> Found:
        """Ask the machine for something; what it says."""
        found = what(self._holding, boot_ms())
        self._tell()
        return found

    def read(self, what: Callable[[Holding, int], Found]) -> Found:
        """Look at the machine."""
        return what(self._holding, boot_ms())

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
        self._holding = Holding()  # whatever the parent's was doing
        self.news.disown()

    # -- inside

    def _begin(self) -> BackgroundTask:
        return BackgroundTask(self._serve, self.wake)

    def _tell(self) -> None:
        self.news.take(self._holding.take_news())
        self.wake()
        self._on_change()

    async def _serve(self) -> None:
        async with side_tasks() as tasks:
            tasks.start(self._watch_time())
            while not self._holding.is_over:
                with anyio.CancelScope() as scope:
                    tasks.start(self._end_with_session(scope))
                    await self._connect_and_talk()
                scope.cancel()
            tasks.cancel()

    async def _end_with_session(self, scope: anyio.CancelScope) -> None:
        """Cancel it when the session is over, whatever it waits for; it may have ended before."""
        while not self._holding.is_over and not scope.cancel_called:
            await self._changed.wait()
        scope.cancel()

    async def _watch_time(self) -> None:
        while not self._holding.is_over:
            changed = self._changed
            with anyio.move_on_after(self._wait_s()) as scope:
                await changed.wait()
            if scope.cancelled_caught:
                self.do(Holding.woken)

    def _wait_s(self) -> float:
        wake_ms = self._holding.wake_ms()
        return 0.0 if wake_ms is None else max(0.001, min(STEP_S, (wake_ms - boot_ms()) / 1000))

    async def _connect_and_talk(self) -> None:
        addresses = self._reach.addresses
        address = addresses[self._turn % len(addresses)]
        try:
            connect_s = min(self._reach.connect_s, max(0.2, (self._holding.ttl_ms or TTL_MS) / 8000))
            line: GreetedStream[int] = await open_first([address], connect_s)
            try:
                await self._talk(line)
            finally:
                await close(line.stream)
        except DistkvError as error:
            self._lose(error)
            if self._turn % len(addresses) == 0:
                await anyio.sleep(self._pauses.next_s(random.random()))

    def _lose(self, error: DistkvError) -> None:
        self._turn += 1
        self.do(lambda holding, now_ms: holding.disconnected(error, now_ms))

    async def _talk(self, line: GreetedStream[int]) -> None:
        """Move questions and answers until the connection breaks, and raise why."""
        asked = dict[int, Question[TokenReply]]()
        self.do(Holding.connected)
        failure: list[DistkvError] = []
        async with side_tasks() as tasks:

            async def hear() -> None:
                try:
                    while True:
                        self._hear(line, asked, await receive(line.stream, line.name))
                except DistkvError as error:
                    failure.append(error)
                tasks.cancel()

            tasks.start(hear())
            while not self._holding.wants_other_node:
                changed = self._changed
                await self._send(line, asked)
                await changed.wait()
            failure.append(failures.silent(line.name))
            tasks.cancel()
        raise failure[0]

    async def _send(self, line: GreetedStream[int], asked: dict[int, Question[TokenReply]]) -> None:
        frames = list[bytes]()
        for one in self._holding.take_questions():
            asked[one.id] = session_question(one)
            frames.append(line.conversation.ask(asked[one.id], one.id))
        if frames:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # whoever reads will see it too
                await line.stream.send(b"".join(frames))

    def _hear(self, line: GreetedStream[int], asked: dict[int, Question[TokenReply]], data: bytes) -> None:
        for answered in line.conversation.feed(data):
            question, answer = asked.pop(answered.asker, None), answered.answer
            if question is not None and answer is not None:
                result = answer if isinstance(answer, DistkvError) else read_answer(question, answer, line.name)
                self._pauses.reset()
                self._answer(answered.asker, result)
        if line.conversation.failure is not None:
            raise line.conversation.failure

    def _answer(self, id: int, result: TokenReply | DistkvError) -> None:
        self.do(lambda holding, now_ms: holding.answered(id, result, now_ms))
