"""All connections of a node: those that come in, and those that it lends to nodes which cannot dial it.

Knows: how many there may be, and how one ends.  Does not know what is asked on one (`session`).

Invariant: what happens on one connection ends that one at the most, unless the node itself must end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from distkv.core.ready import LendEnded, LendTo
from distkv.engine.driver import Driver
from distkv.errors import BusyError, DistkvError, PeerError, RequestError
from distkv.services import lending
from distkv.services.idle import RECEIVE_BYTES, IdleConnections
from distkv.services.session import Session
from distkv.wire.replies import encode_error
from distkv.wire.request import Lend

LINGER_S: Final = 1.0
"""How long a connection that is refused is still read, so that the refusal arrives."""
REFUSED_MAX: Final = 8
"""So many are told at a time that they are refused: each costs a descriptor. Those beyond are closed without a word."""
NODES_MAX: Final = 16
"""So many connections are kept for nodes, of a quarter of all at the most."""
NODE_S: Final = 2.0
"""Within so long a node asks something on its connection."""
ACCEPT_AGAIN_S: Final = 0.1
QUIET_S: Final = 30.0
"""After so long without a request a connection that is lent is given up."""


async def serve_listeners(driver: Driver, listeners: Sequence[trio.abc.Listener[trio.abc.Stream]]) -> None:
    """Serve every connection, until cancelled; beyond the limit a connection gets `busy` and is closed."""
    open_count = refused_count = 0

    async def handle(stream: trio.abc.Stream) -> None:
        nonlocal open_count, refused_count
        if open_count >= driver.limits.connections:
            driver.counters["connections_refused"] += 1
            if refused_count >= REFUSED_MAX:
                await trio.aclose_forcefully(stream)
                return
            refused_count += 1
            try:
                await _turn_away(
                    stream,
                    BusyError(f"{driver.replica.name} has {open_count} connections open already: try again later"),
                )
            finally:
                refused_count -= 1
            return
        is_last = open_count >= driver.limits.connections - _kept_for_nodes(driver.limits.connections)
        open_count += 1
        try:
            await _serve(driver, stream, idle, for_nodes=is_last)
        finally:
            open_count -= 1

    limits = driver.limits
    with IdleConnections(driver.committer, driver.work, max(limits.half_bytes, 2 * limits.request_bytes)) as idle:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(idle.run)
            nursery.start_soon(idle.halves.run)
            nursery.start_soon(_lend_all, driver, idle, nursery)
            await trio.serve_listeners(handle, [_Patient(one, driver) for one in listeners])


class _Patient(trio.abc.Listener[trio.abc.Stream]):
    """A listener that goes on when one connection cannot be accepted, for example because memory ran out."""

    def __init__(self, listener: trio.abc.Listener[trio.abc.Stream], driver: Driver) -> None:
        self._listener: Final = listener
        self._driver: Final = driver

    async def accept(self) -> trio.abc.Stream:
        """The next connection; raises OSError as the listener does: of a lack of descriptors trio has its own care."""
        while True:
            try:
                return await self._listener.accept()
            except OSError:
                raise
            except Exception as error:
                self._driver.faults.contain(error, "a new connection")
                await trio.sleep(ACCEPT_AGAIN_S)

    async def aclose(self) -> None:
        await self._listener.aclose()


def _kept_for_nodes(connections: int) -> int:
    """So many of the connections are for other nodes, however many clients there are: changes must go on."""
    return min(NODES_MAX, connections // 4)


async def _serve(driver: Driver, stream: trio.abc.Stream, idle: IdleConnections, *, for_nodes: bool) -> None:
    """Serve a connection until it ends; one `for_nodes` ends soon unless a node asks on it."""
    is_sound = False
    try:
        async with stream:
            async with trio.open_nursery() as nursery:
                session = Session(driver, stream, idle, nursery)
                if for_nodes:
                    nursery.start_soon(_end_client, driver, session, nursery.cancel_scope)
                is_sound = await session.serve()
                nursery.cancel_scope.cancel()
            if session.lender is not None:
                await lending.borrow(driver, session.lender, stream)
            elif not is_sound:
                await _linger(stream)
    except* (trio.BrokenResourceError, trio.ClosedResourceError):
        driver.counters["connection_lost"] += 1
    except* Exception as group:
        driver.faults.contain(group, "a connection")


async def _end_client(driver: Driver, session: Session, scope: trio.CancelScope) -> None:
    """Who has asked nothing as a node within a moment is a client, for whom there is no connection left."""
    await trio.sleep(NODE_S)
    if session.is_of_client:
        driver.counters["connections_refused"] += 1
        session.turn_away(BusyError(f"{driver.replica.name} keeps its last connections for nodes: try again later"))
        scope.cancel()


async def _lend_all(driver: Driver, idle: IdleConnections, nursery: trio.Nursery) -> None:
    """Lend connections to whoever needs them (docs/protocol, LINK-9)."""
    async for lend in driver.offers:
        nursery.start_soon(_lend, driver, lend, idle)


async def _lend(driver: Driver, lend: LendTo, idle: IdleConnections) -> None:
    """Lend one to a node, and answer on it what that node asks, until it ends."""
    replica, loans = driver.replica, driver.loans
    error: DistkvError | None = None
    was_used = False
    if loans is not None and replica.network_id is not None:
        request = Lend(1, replica.name, replica.life or 0, replica.network_id)
        try:
            async with loans.lend(lend.name, lend.addr, request) as stream:
                was_used = await _answer(driver, stream, idle)
        except (PeerError, RequestError) as cause:
            error = cause
    driver.step(LendEnded(lend.name, was_used, error))


async def _answer(driver: Driver, stream: trio.abc.Stream, idle: IdleConnections) -> bool:
    """Answer on a connection that is lent; whether anything was asked."""
    heard = 0
    try:
        async with trio.open_nursery() as nursery:
            session = Session(driver, stream, idle, nursery, is_lent=True)
            nursery.start_soon(_end_when_quiet, session, max(QUIET_S, 2 * driver.silent_s), nursery.cancel_scope)
            try:
                await session.serve()
            finally:
                heard = session.heard
            nursery.cancel_scope.cancel()
    except* (trio.BrokenResourceError, trio.ClosedResourceError):
        driver.counters["connection_lost"] += 1
    except* Exception as group:
        driver.faults.contain(group, "a connection that is lent")
    return heard > 0


async def _end_when_quiet(session: Session, quiet_s: float, scope: trio.CancelScope) -> None:
    """The other side may be gone without a word, and gets another connection only when this one has ended. While it is
    there it follows, and gives signs of life."""
    heard = -1
    while session.heard > heard:
        heard = session.heard
        await trio.sleep(quiet_s)
    scope.cancel()


async def _turn_away(stream: trio.abc.Stream, error: BusyError) -> None:
    """Say why, and close; whoever is gone already is not missed."""
    try:
        async with stream:
            with trio.move_on_after(LINGER_S):
                await stream.send_all(encode_error(0, error))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


async def _linger(stream: trio.abc.Stream) -> None:
    """Read what is still under way and forget it: closing in the face of unread data could destroy the last reply."""
    with trio.move_on_after(LINGER_S):
        if isinstance(stream, trio.abc.HalfCloseableStream):
            await stream.send_eof()
        while await stream.receive_some(RECEIVE_BYTES):
            pass
