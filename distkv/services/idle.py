"""Connections at rest: one task reads and answers for all of them.

Knows: which connections wait for their next request, and which for the disk.  Does not know what a request does, nor
anything about those that are busy with a long answer or a slow reader: they are back in their own tasks.

Invariant: a connection is served here or by its own task, never by both; here nothing waits for one of them.

Waking a task for every request, and again to send, costs more than answering it: with 32 connections a profile showed
three quarters of the time of a get in the scheduler. So a connection at rest costs no task: what is ready is read,
answered and sent in one go, and one commit covers the writes of all.
"""

from __future__ import annotations

import os
import select
from collections import deque
from typing import Final, Protocol

import attrs
import trio

from distkv.engine.commit import Committer
from distkv.engine.turn_work import TURN, TurnWork
from distkv.services.half_requests import HalfRequests
from distkv.services.sender import Sender

RECEIVE_BYTES: Final = 1 << 16
ROUND_MAX: Final = 64
"""So many connections are served before others, such as gossip and the clock, have their turn."""


class Answering(Protocol):
    """A connection, as far as it is served here."""

    sender: Sender

    def take(self, data: bytes) -> bool:
        """Answer what these bytes of the stream ask; False: the connection's own task has to go on."""


@attrs.define(eq=False)
class _Guest:
    """A connection at rest."""

    connection: Answering
    fd: int
    over: trio.Event = attrs.field(factory=trio.Event)
    has_ended: bool = False
    is_landing: bool = False
    """Whether its replies wait for the disk; until they have left it is not read, which is back-pressure."""
    is_watched: bool = True
    """Whether the epoll knows it."""


class IdleConnections:
    """Serves connections at rest. A context manager, to be left when no connection is served any more."""

    def __init__(self, committer: Committer, work: TurnWork, half_bytes_max: int) -> None:
        self.halves = HalfRequests(half_bytes_max)
        """Of these connections, and of those that are busy."""
        self._committer = committer
        self._work = work
        self._ready: deque[int] = deque()  # descriptors that had no turn yet; the epoll would tell of others first
        self._epoll = select.epoll()
        self._guests: dict[int, _Guest] = {}
        self._landing: deque[tuple[int, _Guest]] = deque()  # by the position that each waits for
        committer.listeners.insert(0, self._send_what_landed)  # whoever wrote hears of it before those who watch

    def __enter__(self) -> IdleConnections:
        return self

    def __exit__(self, *_: object) -> None:
        self._epoll.close()

    async def serve(self, connection: Answering, fd: int) -> bool:
        """Serve the connection with this socket until its own task has to go on.

        Returns:
            Whether something is left to be done in the connection; else its stream has ended or broken.
        """
        guest = self._guests[fd] = _Guest(connection, fd)
        self._epoll.register(fd, select.EPOLLIN)
        try:
            await guest.over.wait()
        finally:
            del self._guests[fd]
            self._ignore(guest)
        return not guest.has_ended

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            StorageFailedError: the disk failed; the node must end.
        """
        while True:
            if self._ready:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for fd, _ in self._epoll.poll(0, ROUND_MAX):
                    self._ready.append(fd)
            end = self._work.end_of(TURN)
            while self._ready and self._work.done < end:
                guest = self._guests.get(self._ready.popleft())
                if guest is not None:  # else it has ended meanwhile
                    self._serve(guest)
            if self._landing or self._committer.is_wanted:
                self._committer.hurry(self)

    def _serve(self, guest: _Guest) -> None:
        if guest.over.is_set() or guest.is_landing:
            self._ignore(guest)
            return
        try:
            data = os.read(guest.fd, RECEIVE_BYTES)
        except BlockingIOError:
            return
        except (OSError, MemoryError):  # what it sends cannot be taken: it ends, and others go on
            data = b""
        if not data:
            guest.has_ended = True
            guest.over.set()
        elif not guest.connection.take(data):
            guest.over.set()
        elif guest.connection.sender.position > self._committer.durable:
            guest.is_landing = True
            self._landing.append((guest.connection.sender.position, guest))
        elif not guest.connection.sender.flush_nowait():
            guest.over.set()

    def _ignore(self, guest: _Guest) -> None:
        """It may have more to say, but has to wait. Masking it would not do: an epoll always tells of an end."""
        if guest.is_watched:
            guest.is_watched = False
            self._epoll.unregister(guest.fd)

    def _send_what_landed(self) -> None:
        while self._landing and self._landing[0][0] <= self._committer.durable:
            guest = self._landing.popleft()[1]
            guest.is_landing = False
            if self._guests.get(guest.fd) is not guest:
                continue
            if not guest.connection.sender.flush_nowait():
                guest.over.set()
            elif not guest.is_watched:
                guest.is_watched = True
                self._epoll.register(guest.fd, select.EPOLLIN)
