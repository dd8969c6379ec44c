"""A client of the activity network for programs without an event loop.

Knows: its thread, the connection of that, and who waits for what.  Does not know what is said on it (`activity`).
Imports neither trio nor anyio.

Invariant: only the thread has the connection, and whoever has the lock the half. When the client is closed the thread
ends, and nobody waits any more.
"""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from distkv.client.activity import ActivityHalf, ActivityMessage, ActivityMissed, ActivityNews, activity_half
from distkv.client.activity_place import (
    ActivityRoute,
    ListenerAddress,
    is_final,
    keep_alive,
    never_taken,
    read_place,
)
from distkv.client.addresses import DEFAULT_ADDRESS, Address, address_text, read_hosts
from distkv.client.blocking import Client
from distkv.errors import DistkvError, UnreachableError

RECEIVE_BYTES: Final = 1 << 16


def connect_activity(
    host: str | Sequence[str] = DEFAULT_ADDRESS[0],
    port: int = DEFAULT_ADDRESS[1],
    user: str = "anonymous",
    secret: str | None = None,
    *,
    listens: bool = True,
    connect_s: float = 5.0,
    reply_s: float = 30.0,
) -> Activity:
    """A client of the activity network that is logged in: `with connect_activity() as activity`. It asks a node where
    its listener is, goes where it is sent, and goes on after a break with what it lacks.

    Args:
        host: HOST, HOST:PORT or unix:/PATH of a node, as for `connect`; of several the first that answers is asked.
        port: for hosts without one.
        user: who logs in.
        secret: of the user; not needed for "anonymous".
        listens: whether it is told what is said; False: for who only sends.
        connect_s: how long one address is tried.
        reply_s: how long it tries when no node takes it, and how long a send may take.

    Raises:
        BadValueError: a user or a secret that is none.
        SettingsError: a host, a port or a time that is none.
        UnreachableError: no node takes it.
        DisabledError: the node has no listener.
        DistkvError: it may not log in.
    """
    half = activity_half(user, secret, connect_s, reply_s, listens=listens)
    return Activity(read_hosts(host, port), half, connect_s=connect_s, reply_s=reply_s)


class Activity:
    """`connect_activity` makes it; many threads may use it at once. A thread of its own reads what comes, and connects
    again."""

    def __init__(self, addresses: Sequence[Address], half: ActivityHalf, *, connect_s: float, reply_s: float) -> None:
        self._addresses: Final = addresses
        self._half: Final = half
        self._connect_s: Final = connect_s
        self._reply_s: Final = reply_s
        self._route: Final = ActivityRoute(reply_s)
        self._changed: Final = threading.Condition()
        """Around the half, too."""
        self._bell: Final = socket.socketpair()
        """What is written into the second end wakes the thread."""
        self._is_closed = False
        self._thread: Final = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        try:
            with self._changed:
                self._wait(lambda: half.is_in, None)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<distkv.{type(self).__name__} {', '.join(map(address_text, self._addresses))}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Log out; who waits gets `UnreachableError`. May be called again."""
        with self._changed:
            self._is_closed = True
            self._half.fail(UnreachableError("this client of the activity network is closed"))
            self._changed.notify_all()
        self._ring()
        self._thread.join()

    def send(self, activity: Mapping[str, object]) -> None:
        """Say something to everybody, and wait for the echo: then everybody who is connected hears it, or did.

        Raises:
            SendUnknownError: the connection ended before the echo came, or it did not come within `reply_s`: it
                reached some, all or nobody.
            BadValueError, TooLargeError: it is no JSON object, or too large; nothing was sent.
            BusyError: too many wait for their echo.
            UnreachableError: no node takes this client; or it is closed.
        """
        half = self._half
        with self._changed:
            self._check()
            number = half.send(activity)
            self._ring()
            try:
                self._changed.wait_for(lambda: half.has_result(number), self._reply_s)
                error = half.result_or_silence(number)
            finally:
                half.give_up(number)
        if error is not None:
            raise error

    def __iter__(self) -> Iterator[ActivityNews]:
        """What anybody says, without an end: each an `ActivityMessage`, or an `ActivityMissed`; raises as `receive`."""
        while True:
            found = self.receive(threading.TIMEOUT_MAX)
            if found is not None:
                yield found

    def receive(self, wait_s: float = 0.0) -> ActivityMessage | ActivityMissed | None:
        """The next that is said; None: nothing within `wait_s` seconds.

        Raises:
            UnreachableError: no node takes this client; or it is closed.
            DistkvError: it may not log in any more.
        """
        news = self._half.news
        with self._changed:
            if not news:
                self._wait(lambda: bool(news), wait_s)
            if not news:
                return None
            could_take_more, found = self._half.wants_more, news.popleft()
        if not could_take_more:
            self._ring()
        return found

    # -- inside: who waits

    def _check(self) -> None:
        if self._half.error is not None:
            raise self._half.error

    def _wait(self, is_there: Callable[[], bool], wait_s: float | None) -> None:
        """With the lock: until something is there, the time is over, or nothing comes any more, which is raised."""
        self._changed.wait_for(lambda: is_there() or self._half.error is not None, wait_s)
        if not is_there():
            self._check()

    def _ring(self) -> None:
        with suppress(OSError):  # so many have rung that the thread wakes anyway, or it is over
            self._bell[1].send(b"x", socket.MSG_DONTWAIT)

    # -- inside: the thread

    def _serve(self) -> None:
        half, last = self._half, None
        while not self._is_over:
            error = self._connect()
            last = error or last
            with self._changed:
                if error is not None and is_final(error) and not half.was_in:
                    half.fail(error)
                if error is not None and self._route.is_over(time.monotonic()):
                    half.fail(never_taken(last))
                self._changed.notify_all()
            if not self._is_over:
                self._sleep(self._route.pause_s(random.random()))
        for end in self._bell:
            end.close()

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._half.error is not None

    def _sleep(self, seconds: float) -> None:
        select.select([self._bell[0]], [], [], seconds)
        self._quiet()

    def _quiet(self) -> None:
        with suppress(OSError):
            self._bell[0].recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)

    def _connect(self) -> Exception | None:
        """Be connected until that is over; why it could not be."""
        half, route = self._half, self._route
        try:
            place = route.next_place() or self._find()
            line = socket.create_connection(place, self._connect_s)
        except (DistkvError, OSError) as error:
            route.missed()
            return error
        with line:
            was_in = False
            try:
                keep_alive(line)
                line.settimeout(self._reply_s)
                line.sendall(half.connected())
                while not self._is_over and self._exchange(line):
                    if half.is_in:
                        was_in = True
                        route.entered(place)
                found: Exception | None = None
            except OSError as error:
                found = error
        with self._changed:
            half.lost()
            route.left(half.redirect)
            if not was_in and half.redirect is None:
                route.missed()
                return found or UnreachableError(f"the listener at {place[0]}:{place[1]} did not take this client")
        return None

    def _exchange(self, line: socket.socket) -> bool:
        """Send what is to be sent, and take what comes; False: the connection is over."""
        half, bell = self._half, self._bell[0]
        with self._changed:
            lines, wants_more = half.take_lines(), half.wants_more
        line.sendall(lines)
        ready, _, _ = select.select([line, bell] if wants_more else [bell], [], [])
        if bell in ready:
            self._quiet()
        if line not in ready:
            return True
        data = line.recv(RECEIVE_BYTES)
        with self._changed:
            half.take(data)
            self._changed.notify_all()
        return bool(data) and not half.is_ending

    def _find(self) -> ListenerAddress:
        with Client(self._addresses, connect_s=self._connect_s, reply_s=self._connect_s) as client:
            return read_place(client.request("activity_place", {}, is_read=True))
