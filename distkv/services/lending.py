"""Whose connection this node takes over, to ask on it: that of a node which it cannot dial.

Knows: who may lend one.  Does not know how it is used (`transport.loans`), nor to whom this node lends one.

Invariant: only another registered node of this network, in its present life, lends a connection, as far as its words
can be believed; and only when an attempt to dial it has just failed (docs/protocol, LINK-18).
"""

from __future__ import annotations

import trio

from distkv.core.ready import LineLent
from distkv.engine.driver import Driver
from distkv.errors import RequestError
from distkv.services.parts import foreign_error, is_foreign
from distkv.transport.loans import Lender
from distkv.wire.request import Lend


async def check_lender(driver: Driver, request: Lend) -> Lender:
    """The node that offers a connection, which is to be taken; it takes as long as an attempt to dial it.

    Raises:
        RequestError: it is not.
    """
    replica, name = driver.replica, request.node
    if is_foreign(request.network, replica):
        driver.counters["lend_foreign"] += 1
        raise foreign_error(replica)
    registered = replica.registry.nodes.get(name)
    if name == replica.name or registered is None or registered.life != request.life:
        raise RequestError(f"{name} is no other registered node in its life {request.life}")
    addr = replica.peers(driver.now_ms()).get(name, ("", False))[0] or registered.addr
    if driver.loans is None or not addr:
        raise RequestError(f"{replica.name} would not dial {name}, and takes no connection of it")
    return await driver.loans.check(Lender(name, request.life, request.network, addr))


async def borrow(driver: Driver, lender: Lender, stream: trio.abc.Stream) -> None:
    """Ask a node on the connection that it lends, as long as it lasts."""
    if driver.loans is not None:
        await driver.loans.borrow(lender, stream, lambda: driver.step(LineLent(lender.name)))
