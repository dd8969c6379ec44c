"""A client of the activity network for programs without an event loop.

Knows: its connection, and who waits for what.  Does not know what is said on it (`activity`).  Imports neither trio nor
anyio.

Invariant: one thread at a time has the connection: who calls a method reads and writes for all until that is done.
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

from distkv.client.activity import ActivityHalf, ActivityMessage, ActivityMissed, ActivityNews
from distkv.client.activity_place import (
    KEEPALIVE,
    ActivityRoute,
    ListenerAddress,
    is_final,
    never_taken,
    read_place,
)
from distkv.client.addresses import DEFAULT_ADDRESS, Address, address_text, read_hosts
from distkv.client.arguments import check_patience
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
    check_patience("connect_s", connect_s)
    check_patience("reply_s", reply_s)
    half = ActivityHalf(user, secret, listens=listens)
    return Activity(read_hosts(host, port), half, connect_s=connect_s, reply_s=reply_s)


class Activity:
    """`connect_activity` makes it; of several threads one goes on after the other. What comes while nobody waits is
    read with the next call: who listens calls often enough not to be closed as too slow."""

    def __init__(self, addresses: Sequence[Address], half: ActivityHalf, *, connect_s: float, reply_s: float) -> None:
        self._addresses: Final = addresses
        self._half: Final = half
        self._connect_s: Final = connect_s
        self._reply_s: Final = reply_s
        self._route: Final = ActivityRoute(reply_s)
        self._turn: Final = threading.Lock()
        self._line: socket.socket | None = None
        self._last: Exception | None = None
        """Why it could not connect."""
        with self._turn:
            self._drive(lambda: half.is_in, None)

    def __repr__(self) -> str:
        return f"<distkv.{type(self).__name__} {', '.join(map(address_text, self._addresses))}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Log out, when whoever is at work is done. May be called again."""
        with self._turn:
            self._half.fail(UnreachableError("this client of the activity network is closed"))
            self._leave()

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
        with self._turn:
            self._check()
            number = half.send(activity)
            try:
                self._drive(lambda: half.has_result(number), time.monotonic() + self._reply_s)
                error = half.result_or_silence(number)
            finally:
                half.give_up(number)
        if error is not None:
            raise error

    def __iter__(self) -> Iterator[ActivityNews]:
        """What anybody says, without an end: each an `ActivityMessage`, or an `ActivityMissed`; raises as `receive`."""
        while True:
            found = self.receive(float("inf"))
            if found is not None:
                yield found

    def receive(self, wait_s: float = 0.0) -> ActivityMessage | ActivityMissed | None:
        """The next that is said; None: nothing within `wait_s` seconds.

        Raises:
            UnreachableError: no node takes this client; or it is closed.
            DistkvError: it may not log in any more.
        """
        news = self._half.news
        with self._turn:
            if not news:
                self._check()
                self._drive(lambda: bool(news), time.monotonic() + wait_s)
            return news.popleft() if news else None

    # -- inside

    def _check(self) -> None:
        if self._half.error is not None:
            raise self._half.error

    def _drive(self, is_done: Callable[[], bool], deadline: float | None) -> None:
        """Read and write, and connect where that is needed, until something is done or the time is over."""
        while not is_done():
            self._check()
            left_s = float("inf") if deadline is None else deadline - time.monotonic()
            if self._line is None:
                self._connect()
            elif not self._exchange(self._line, max(0.0, left_s)) or self._half.is_ending:
                self._leave()
            if left_s <= 0:
                return

    def _exchange(self, line: socket.socket, wait_s: float) -> bool:
        """Send what is to be sent, and take what comes; False: the connection is over."""
        try:
            line.sendall(self._half.take_lines())
            wait_ms = None if wait_s == float("inf") else max(1, round(wait_s * 1000))
            poll = select.poll()
            poll.register(line, select.POLLIN)
            if not poll.poll(wait_ms):
                return True
            data = line.recv(RECEIVE_BYTES)
        except OSError:
            return False
        self._half.take(data)
        return bool(data)

    def _connect(self) -> None:
        half, route = self._half, self._route
        try:
            place = route.next_place() or self._find()
            line = self._line = socket.create_connection(place, self._connect_s)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, seconds in KEEPALIVE:
                line.setsockopt(socket.IPPROTO_TCP, name, seconds)
            line.sendall(half.connected())
            line.settimeout(self._reply_s)
            while not (half.is_in or half.is_ending):
                data = line.recv(RECEIVE_BYTES)
                if not data:
                    raise UnreachableError("the node ended the connection before the login")
                half.take(data)
            if half.is_in:
                route.entered(place)
                return
        except (DistkvError, OSError) as error:
            self._last = error
            if is_final(error) and not half.was_in:
                half.fail(error)
        self._leave()
        if half.redirect is None:
            route.missed()
        if half.error is None and route.is_over(time.monotonic()):
            half.fail(never_taken(self._last))
        if half.error is None:
            time.sleep(route.pause_s(random.random()))

    def _find(self) -> ListenerAddress:
        with Client(self._addresses, connect_s=self._connect_s, reply_s=self._connect_s) as client:
            return read_place(client.request("activity_place", {}, is_read=True))

    def _leave(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            with suppress(OSError):
                line.close()
            self._half.lost()
            self._route.left(self._half.redirect)
