"""Keeps one session alive, in a thread and on a connection of its own.

Knows: threads, sockets, which address comes next.  Does not know what is asked (`holding`), nor what users see.

Invariant: the machine is changed by the thread alone, to which others give orders, as long as there is a thread; what
it tells is there before who waits looks. The thread ends when the session is over, or when nobody can end it any more,
and then nobody waits. There is no lock: whatever a signal handler raises in who waits or orders, the session goes on.

A node that does not answer is left for the next address in time: the session outlives its node.
"""

from __future__ import annotations

import _thread
import select
import socket
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from distkv.client import failures, forks
from distkv.client.addresses import Reach
from distkv.client.bell import Bell
from distkv.client.boot_clock import boot_ms
from distkv.client.connection import Connection
from distkv.client.holding import Holding
from distkv.client.session_talk import SessionTalk
from distkv.client.token_wish import TokenNews
from distkv.errors import DistkvError
from distkv.wire.token_replies import TokenReply

Found = TypeVar("Found")


class _Order(Generic[Found]):
    """Something that the thread is to do with the machine."""

    def __init__(self, what: Callable[[Holding, int], Found]) -> None:
        self._what: Final = what
        self._found: list[Found] = []
        self._error: DistkvError | None = None
        self.is_done = False

    def carry_out(self, holding: Holding) -> None:
        """Keep what it comes to for who ordered it."""
        try:
            self._found.append(self._what(holding, boot_ms()))
        except DistkvError as error:  # which is for who ordered it
            self._error = error
        self.is_done = True

    def result(self) -> Found:
        """Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._found[0]


class SessionThread:
    """The thread, and how others get at the session."""

    def __init__(
        self, reach: Reach, holding: Holding, on_change: Callable[[], None] | None = None, bell: Bell | None = None
    ) -> None:
        """`on_change` is called in the thread, after whatever happened; `bell` is rung for who waits for it."""
        self._talk: Final = SessionTalk(reach, holding)
        self._on_change: Final = on_change
        self._bell: Final = Bell() if bell is None else bell
        self.news: Final = TokenNews()
        """Changed by the thread."""
        self._orders: Final = deque[_Order[Any]]()
        self._machine: Final = deque([holding])
        """Empty: the thread took it. Who finds it there has no thread to fear."""
        self._is_started = self._is_ended = self._is_left = False
        self._user: weakref.ref[object] | None = None
        self._waker, self._wakeup = socket.socketpair()
        for end in (self._waker, self._wakeup):
            end.setblocking(False)
        forks.tell_child(self)

    def start(self, user: object = None) -> None:
        """Begin. The session ends when the `user` does not exist any more: nobody else could end it."""
        if user is not None:
            self._user = weakref.ref(user, self._close_soon)
        # `threading` would wait until it runs, on a lock that a signal handler's exception leaves locked.
        _thread.start_new_thread(self._run, ())
        self._is_started = True

    def do(self, what: Callable[[Holding, int], Found]) -> Found:
        """Ask the machine for something, from any thread; what it says."""
        order = _Order(what)
        self._order(order)
        if not self._is_started and self._take_machine():
            self._is_ended = True  # there never was a thread
        self.wait(lambda _: order.is_done)
        if not order.is_done:
            self._carry_out()
        return order.result()

    def read(self, what: Callable[[Holding, int], Found]) -> Found:
        """Look at the machine, from any thread."""
        return what(self._talk.holding, boot_ms())

    def wait(self, condition: Callable[[TokenNews], bool]) -> None:
        """Until something is so; it has to become so, at the latest when all is over."""
        self._bell.wait(lambda: condition(self.news) or self._is_ended)

    def join(self) -> None:
        """Until the thread has ended, which it does when the session is over."""
        self._bell.wait(lambda: self._is_ended)

    def leave(self) -> None:
        """End the thread. The session goes on by itself until its ttl is over."""
        self._is_left = True
        self._wake()
        self.join()

    def leave_to_parent(self) -> None:
        """In a child, which has no such thread: the session is the parent's, and over for us."""
        for end in (self._waker, self._wakeup):
            end.close()
        self._talk.leave_to_parent()
        self.news.disown()
        self._is_ended = True

    # -- inside, for other threads

    def _order(self, order: _Order[Found]) -> None:
        self._orders.append(order)
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # it is full, and so wakes already; or all is over
            self._waker.send(b"\0")

    def _close_soon(self, _: object) -> None:
        self._order(_Order(Holding.close))

    def _take_machine(self) -> bool:
        try:
            self._machine.pop()
        except IndexError:
            return False
        return True

    # -- inside: all of it in the thread; without one, `_carry_out`

    @property
    def _is_done(self) -> bool:
        return self._is_left or self._talk.holding.is_over

    def _run(self) -> None:
        if not self._take_machine():
            return
        try:
            while not self._is_done:
                line = self._connect()
                if line is not None:
                    self._converse(line)
        finally:
            self._is_ended = True
            self._carry_out()
            self._waker.close()
            self._wakeup.close()
            self._user = None

    def _step(self, what: Callable[[Holding, int], None]) -> None:
        what(self._talk.holding, boot_ms())
        self._carry_out()
        if self._on_change is not None:
            self._on_change()

    def _carry_out(self) -> None:
        """The orders, and tell what came of everything. Of two threads that end it each takes some."""
        with suppress(IndexError):
            while True:
                self._orders.popleft().carry_out(self._talk.holding)
        self.news.take(self._talk.holding.take_news())
        self._bell.ring()

    def _connect(self) -> Connection | None:
        """A connection to the address whose turn it is; None: there is none."""
        try:
            return Connection(self._talk.address, connect_s=self._talk.connect_s)
        except DistkvError as error:
            self._lose(error)
            return None

    def _lose(self, error: DistkvError) -> None:
        """The next address is tried: at once, or when all were in vain after a pause."""
        self._step(lambda holding, now_ms: holding.disconnected(error, now_ms))
        until_ms = boot_ms() + int(1000 * self._talk.next_address())
        while not self._is_done and (left_ms := until_ms - boot_ms()) > 0:
            self._poll(None, min(left_ms, self._talk.wait_ms))
            self._step(Holding.woken)

    def _converse(self, line: Connection) -> None:
        """Move questions and answers, until the session is over or the connection breaks."""
        try:
            self._step(Holding.connected)
            while not self._is_done:
                for id, question in self._talk.take_questions():
                    line.send(question, id)
                if self._poll(line, self._talk.wait_ms):
                    for id, answer in self._talk.answers(line.take(), line.hello.node):
                        self._take_answer(id, answer)
                self._step(Holding.woken)
                if self._talk.holding.wants_other_node:
                    raise failures.silent(line.name)
        except DistkvError as error:
            line.close()
            self._lose(error)
        finally:
            line.close()

    def _take_answer(self, id: int, result: TokenReply | DistkvError) -> None:
        self._step(lambda holding, now_ms: holding.answered(id, result, now_ms))

    def _poll(self, line: Connection | None, wait_ms: int) -> bool:
        """Whether something came on the line; it ends also when somebody wakes us."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        if line is not None:
            poll.register(line.fileno(), select.POLLIN)
        ready = {file for file, _ in poll.poll(wait_ms)}
        if self._wakeup.fileno() in ready:
            with suppress(BlockingIOError):
                self._wakeup.recv(1 << 12)
        return line is not None and line.fileno() in ready
