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
from distkv.engine.scarce import give_back_memory
from distkv.engine.turn_work import TURN, TurnWork
from distkv.errors import BusyError
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


HALF_S: Final = 60.0
"""Within so long a request has to come whole."""
LOOK_S: Final = 5.0
MANY: Final = 32
"""After so many connections that have ended the memory that they had goes back to the system."""


class HalfConnection(Protocol):
    """A connection on which a part of a request came."""

    def end(self, error: BusyError) -> None:
        """Say why, and end it."""


@attrs.define
class HalfRequest:
    """What a connection has of a request, and since when."""

    since_s: float
    size: int


class HalfRequests:
    """Requests of which a part came, on all connections of a node.

    Invariant: all together have at most the limit, besides what one read brings; none is older than `HALF_S` and
    `LOOK_S`."""

    def __init__(self, bytes_max: int) -> None:
        self._max: Final = bytes_max
        self._halves: Final = dict[HalfConnection, HalfRequest]()
        """Those that began first come first."""
        self.size = 0
        """Bytes, of all."""
        self.over = 0
        """How many connections have ended."""

    def note(self, connection: HalfConnection, size: int, *, is_new: bool) -> None:
        """A connection has so many bytes of a request that is not whole; 0: it has none. `is_new`: it is another one
        than before."""
        if is_new or not size:
            self.drop(connection)
        half = self._halves.get(connection)
        if not size:
            return
        if half is None:
            half = self._halves[connection] = HalfRequest(trio.current_time(), 0)
        self.size += size - half.size
        half.size = size
        while self.size > self._max:
            self._end(next(iter(self._halves)), "too many requests of which a part came: send them one after the other")

    def drop(self, connection: HalfConnection) -> None:
        """It has ended, or has no part of a request any more."""
        half = self._halves.pop(connection, None)
        if half is not None:
            self.size -= half.size

    def closed(self, connection: HalfConnection) -> None:
        """A connection has ended, whatever it had."""
        self.over += 1
        self.drop(connection)

    async def run(self) -> None:
        """Give back what nobody completes, until cancelled."""
        given_back = 0
        while True:
            await trio.sleep(LOOK_S)
            if self.over - given_back >= MANY:
                given_back = self.over
                give_back_memory()
            before_s = trio.current_time() - HALF_S
            for connection in [one for one, half in self._halves.items() if half.since_s <= before_s]:
                self._end(connection, f"the request did not come whole within {HALF_S:g} s: ask again")

    # -- inside

    def _end(self, connection: HalfConnection, why: str) -> None:
        self.drop(connection)
        connection.end(BusyError(why))
