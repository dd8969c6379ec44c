"""One connection on which many tasks ask, until it breaks.

Knows: who waits for which answer and how long, and how bytes leave and come.  Does not know how it is made
(`async_stream`), nor made again (`async_connection`).

Invariant: what a task asks is sent whole or not at all, whatever becomes of the task, and in the order in which it was
asked; a task that waits is woken by its answer, by the break, or when its time is over.

An answer takes two turns of the loop: in one everything that came is read and whoever waits for it is woken, in the
next that task goes on.  A question that is alone is sent by the task that asks; those that are asked while others are
under way leave together, one turn later, by one system call.  So do those that follow answers which came together: the
first of them, sent alone, would be a commit of its own for the node, and the others would wait for two.  One task looks
at the times of all.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

import anyio

from distkv.client import failures
from distkv.client.addresses import Address
from distkv.client.async_stream import RECEIVE_BYTES, GreetedStream, close, open_first
from distkv.client.event_loop import Sleeper, attend, home_loop, plain_socket
from distkv.client.node_questions import ping
from distkv.client.questions import Answer, Question, look_s
from distkv.client.side_tasks import side_tasks
from distkv.errors import DistkvError, PeerError, UnreachableError
from distkv.wire.fields import Fields


async def open_line(
    addresses: Sequence[Address], room: anyio.Semaphore, *, connect_s: float, patience_s: float
) -> SharedLine:
    """A line to the first of `addresses` where a node greets; see `SharedLine`.

    Raises:
        UnreachableError, PeerError, BusyError: as `connection.open_connection`.
    """
    greeted: GreetedStream[Waiter] = await open_first(addresses, connect_s)
    try:
        return SharedLine(greeted, room, patience_s, look_s(patience_s) if len(addresses) > 1 else None)
    except OSError as error:  # there is no descriptor left
        await close(greeted.stream)
        raise failures.unanswered(greeted.name, error) from None


class Waiter:
    """A task that waits for its answer."""

    __slots__ = ("answer", "deadline", "is_late", "line", "looks", "sleeper")

    def __init__(self, line: SharedLine, sleeper: Sleeper, deadline: float, *, looks: bool) -> None:
        self.line: Final = line
        self.sleeper: Final = sleeper
        self.deadline: Final = deadline
        self.looks: Final = looks
        """As that of the question."""
        self.answer: Fields | DistkvError | None = None
        """None when it is woken: the line broke, or its time is over."""
        self.is_late = False
        """Whether its time is over."""

    def wake(self, answer: Fields | DistkvError | None) -> None:
        """An answer; None: there will be none."""
        self.answer = answer
        self.sleeper.wake()

    def give_up(self) -> None:
        """Its time is over."""
        self.is_late = True
        self.sleeper.wake()


class SharedLine:
    """A connection that many tasks share, until it breaks."""

    def __init__(
        self, greeted: GreetedStream[Waiter], room: anyio.Semaphore, patience_s: float, each_look_s: float | None
    ) -> None:
        """Each answer makes `room`; nobody waits less than `patience_s` for one. `each_look_s`: so long a server may
        give no sign of life, when asked for one; None: it is never asked, for there is no other one."""
        self.greeted: Final = greeted
        self.failure = failures.ended(greeted.name)
        """Why it broke."""
        self._room: Final = room
        self._patience_s: Final = patience_s if each_look_s is None else each_look_s
        self._look_s: Final = each_look_s
        self._is_heard = False  # since the last look
        self._sign: Waiter | None = None  # what is asked for a sign of life
        self._conversation: Final = greeted.conversation
        self._loop: Final = home_loop()
        self._socket: Final[socket.socket] = plain_socket(greeted.stream)
        self._outgoing: list[bytes] = []
        self._is_burst = False  # whether several answers came at once, after which several ask at once again
        self._rest = b""  # of what is being sent, for which the socket had no room
        self._has_outgoing = anyio.Event()
        self._has_waiters = anyio.Event()
        self._is_timed = False  # whether somebody looks at the times already
        self._scope: Final = anyio.CancelScope()
        self._is_broken = False

    @property
    def is_broken(self) -> bool:
        return self._is_broken

    def ask(self, question: Question[Answer], deadline: float) -> Waiter:
        """Send a question, or leave it to be sent soon. Its answer or the break wakes the waiter, or the deadline."""
        conversation = self._conversation
        is_alone = not (self._is_burst or conversation.open_count or self._outgoing or self._rest)
        waiter = Waiter(self, self._loop.new_sleeper(), deadline, looks=question.looks)
        data = conversation.ask(question, waiter)
        if is_alone:
            data = data[self._send(data) :]
        if data:
            self._outgoing.append(data)
            self._has_outgoing.set()
        if not self._is_timed:
            self._is_timed = True
            self._has_waiters.set()
        return waiter

    def stop(self, why: UnreachableError) -> None:
        """Break it; does nothing when it is broken."""
        if not self._is_broken:
            self.failure = why
            self._break()

    def leave_to_parent(self) -> None:
        """In a child: nothing is asked here any more."""
        self._is_broken = True
        self._socket.close()

    async def serve(self) -> None:
        """Send and receive until it breaks; then wake all who wait."""
        try:
            with self._scope:
                async with side_tasks() as tasks:
                    tasks.start(self._write())
                    tasks.start(self._watch_times())
                    await attend(self._socket, self._read)
        finally:
            self._break()
            nonsense = self._conversation.failure
            for waiter in self._conversation.lose():
                waiter.wake(nonsense if isinstance(nonsense, PeerError) else None)
                self._room.release()
            await self.close()

    async def close(self) -> None:
        """May be called again."""
        await close(self.greeted.stream)
        self._socket.close()

    # -- inside

    def _break(self) -> None:
        self._is_broken = True
        self._scope.cancel()

    def _read(self) -> None:
        """What can be read."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.stop(failures.closed(self.greeted.name, error))
            return
        if not data:
            self.stop(failures.closed(self.greeted.name))
            return
        self._is_heard = True
        found = self._conversation.feed(data)
        self._is_burst = len(found) > 1
        for answered in found:
            answered.asker.wake(answered.answer)
            self._room.release()
        if self._conversation.failure is not None:
            self.stop(UnreachableError(str(self._conversation.failure)))

    def _send(self, data: bytes) -> int:
        """How much of it has left. Of a line that broke all: whoever reads will see it too, after what came last."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    async def _write(self) -> None:
        while True:
            await self._has_outgoing.wait()
            self._has_outgoing = anyio.Event()
            self._rest = b"".join(self._outgoing)
            self._outgoing.clear()
            while self._rest:
                self._rest = self._rest[self._send(self._rest) :]
                if self._rest:
                    await anyio.wait_writable(self._socket)

    def _look(self) -> None:
        """Some time went by: does the server live? Only who would ask another one has it asked for a sign of life."""
        sign, self._sign = self._sign, None
        is_heard, self._is_heard = self._is_heard, False
        if is_heard or self._look_s is None:
            return
        now = self._loop.clock()
        if sign is not None and sign.deadline <= now:
            self.stop(failures.silent(self.greeted.name))
        elif sign is not None:
            self._sign = sign
        elif any(waiter.looks for waiter in self._conversation.waiting()) and self._room.value:
            self._room.acquire_nowait()
            self._sign = self.ask(ping(), now + self._look_s)

    async def _watch_times(self) -> None:
        """Wake those whose time is over.

        Whoever asks while this sleeps has `patience_s` at the least. So it need not be woken for each question.
        """
        while True:
            await self._has_waiters.wait()
            while waiters := self._conversation.waiting():
                now = self._loop.clock()
                for waiter in waiters:
                    if waiter.deadline <= now:
                        waiter.give_up()
                wakes_at = (waiter.deadline for waiter in waiters if waiter.deadline > now)
                await anyio.sleep(min([now + self._patience_s, *wakes_at]) - now)
                self._look()
            self._is_timed = False
            self._has_waiters = anyio.Event()
