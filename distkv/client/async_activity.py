"""A client of the activity network, for trio and asyncio.

Knows: connections, and who waits for what.  Does not know what is said on them (`activity`).

Invariant: what is sent goes on in the background, and what comes is read as long as the user takes it. When it is
closed nobody waits any more.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import SocketAttribute, SocketStream

from distkv.client.activity import ActivityHalf, ActivityMessage, ActivityMissed, ActivityNews, activity_half
from distkv.client.activity_place import ActivityRoute, ListenerAddress, is_final, keep_alive, never_taken, read_place
from distkv.client.addresses import DEFAULT_ADDRESS, Address, address_text, read_hosts
from distkv.client.async_client import open_client
from distkv.client.background import BackgroundTask
from distkv.client.side_tasks import side_tasks
from distkv.errors import DistkvError, PeerError, UnreachableError

RECEIVE_BYTES: Final = 1 << 16


def open_activity(
    host: str | Sequence[str] = DEFAULT_ADDRESS[0],
    port: int = DEFAULT_ADDRESS[1],
    user: str = "anonymous",
    secret: str | None = None,
    *,
    listens: bool = True,
    connect_s: float = 5.0,
    reply_s: float = 30.0,
) -> AsyncActivity:
    """A client of the activity network: `async with open_activity() as activity`. It asks a node where its listener is,
    goes where it is sent, and goes on after a break with what it lacks.

    Args:
        host: HOST, HOST:PORT or unix:/PATH of a node, as for `open_client`; of several the first that answers is asked.
        port: for hosts without one.
        user: who logs in.
        secret: of the user; not needed for "anonymous".
        listens: whether it is told what is said; False: for who only sends.
        connect_s: how long one address is tried.
        reply_s: how long it tries when no node takes it, and how long a send may take.

    Raises:
        BadValueError: a user or a secret that is none.
        SettingsError: a host, a port or a time that is none.
    """
    half = activity_half(user, secret, connect_s, reply_s, listens=listens)
    return AsyncActivity(read_hosts(host, port), half, connect_s=connect_s, reply_s=reply_s)


class AsyncActivity:
    """`open_activity` makes it; many tasks may use it at once."""

    def __init__(self, addresses: Sequence[Address], half: ActivityHalf, *, connect_s: float, reply_s: float) -> None:
        self._addresses: Final = addresses
        self._half: Final = half
        self._connect_s: Final = connect_s
        self._reply_s: Final = reply_s
        self._route: Final = ActivityRoute(reply_s)
        self._changed = anyio.Event()
        self._is_closed = False
        self._background: BackgroundTask | None = None

    def __repr__(self) -> str:
        return f"<distkv.{type(self).__name__} {', '.join(map(address_text, self._addresses))}>"

    async def __aenter__(self) -> Self:
        """Connect and log in.

        Raises:
            UnreachableError: no node takes it.
            DisabledError: the node has no listener.
            DistkvError: it may not log in.
        """
        self._background = BackgroundTask(self._serve, self._wake)
        try:
            while not self._half.is_in:
                changed = self._changed
                self._check()
                await changed.wait()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Log out; who waits gets `UnreachableError`. May be called again."""
        self._is_closed = True
        if self._background is not None:
            await self._background.end()
        self._half.fail(UnreachableError("this client of the activity network is closed"))
        self._wake()

    async def send(self, activity: Mapping[str, object]) -> None:
        """Say something to everybody, and wait for the echo: then everybody who is connected hears it, or did.

        Raises:
            SendUnknownError: the connection ended before the echo came, or it did not come within `reply_s`: it
                reached some, all or nobody.
            BadValueError, TooLargeError: it is no JSON object, or too large; nothing was sent.
            BusyError: too many wait for their echo.
            UnreachableError: no node takes this client; or it is closed.
        """
        self._check()
        number = self._half.send(activity)
        self._wake()
        try:
            with anyio.move_on_after(self._reply_s):
                while not self._half.has_result(number):
                    changed = self._changed
                    await changed.wait()
            error = self._half.result_or_silence(number)
        finally:
            self._half.give_up(number)
        if error is not None:
            raise error

    def __aiter__(self) -> AsyncIterator[ActivityNews]:
        """What anybody says, without an end: each an `ActivityMessage`, or an `ActivityMissed`; raises as `receive`."""
        return self

    async def __anext__(self) -> ActivityNews:
        while True:
            found = await self.receive(float("inf"))
            if found is not None:
                return found

    async def receive(self, wait_s: float = 0.0) -> ActivityMessage | ActivityMissed | None:
        """The next that is said; None: nothing within `wait_s` seconds.

        Raises:
            UnreachableError: no node takes this client; or it is closed.
            DistkvError: it may not log in any more.
        """
        with anyio.move_on_after(wait_s):
            while not self._half.news:
                changed = self._changed
                self._check()
                await changed.wait()
        if not self._half.news:
            return None
        found = self._half.news.popleft()
        self._wake()
        return found

    # -- inside

    def _check(self) -> None:
        if self._half.error is not None:
            raise self._half.error
        if self._background is None or self._background.is_over:
            raise UnreachableError("this client of the activity network is not open")

    def _wake(self) -> None:
        old, self._changed = self._changed, anyio.Event()
        old.set()

    async def _serve(self) -> None:
        half, route, last = self._half, self._route, None
        try:
            while half.error is None:
                try:
                    await self._connect()
                except (DistkvError, OSError, TimeoutError) as error:
                    last = error
                    route.missed()
                    if is_final(error) and not half.was_in:
                        half.fail(error)
                if not half.is_in and route.is_over(anyio.current_time()):
                    half.fail(never_taken(last))
                if half.error is None:
                    await anyio.sleep(route.pause_s(random.random()))
        except Exception as error:
            half.fail(PeerError(f"the client failed: {error}"))
            raise
        finally:
            half.lost()

    async def _connect(self) -> None:
        """Be connected until that is over."""
        place = self._route.next_place() or await self._find()
        with anyio.fail_after(self._connect_s):
            stream = await anyio.connect_tcp(*place)
        keep_alive(stream.extra(SocketAttribute.raw_socket))
        async with stream:
            try:
                await self._talk(stream, place)
            finally:
                redirect = self._half.redirect
                self._half.lost()
                self._route.left(redirect)
                self._wake()

    async def _find(self) -> ListenerAddress:
        hosts = [*map(address_text, self._addresses)]
        async with open_client(hosts, connect_s=self._connect_s, reply_s=self._connect_s) as client:
            return read_place(await client.request("activity_place", {}, is_read=True))

    async def _talk(self, stream: SocketStream, place: ListenerAddress) -> None:
        half = self._half
        try:
            await stream.send(half.connected())
            async with side_tasks() as tasks:
                tasks.start(self._write(stream))
                while not half.is_ending:
                    while not half.wants_more:
                        changed = self._changed
                        await changed.wait()
                    half.take(await stream.receive(RECEIVE_BYTES))
                    if half.is_in:
                        self._route.entered(place)
                    self._wake()
                tasks.cancel()
        except* (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        if not half.is_in:
            self._route.missed()

    async def _write(self, stream: SocketStream) -> None:
        while True:
            changed = self._changed
            if lines := self._half.take_lines():
                await stream.send(lines)
            else:
                await changed.wait()
