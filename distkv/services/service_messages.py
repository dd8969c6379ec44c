"""What a service of another node tells the service of the same name on this one.

Knows: whom it is taken from.  Does not know what it means, nor whether it counts (`core.services`).

Invariant: each message is an input by itself, in the order in which they were sent; nothing is taken from another
network, nor while the disk is full.
"""

from __future__ import annotations

from distkv.core.ready import NodeTold
from distkv.engine.driver import Driver
from distkv.errors import NoSpaceError
from distkv.services.parts import foreign_error, is_foreign
from distkv.wire.request import NodeTell


def take(driver: Driver, request: NodeTell) -> None:
    """Hand it to the replica.

    Raises:
        RequestError: it is of another network, or the disk is full.
    """
    if is_foreign(request.network, driver.replica):
        driver.counters["tell_foreign"] += 1
        raise foreign_error(driver.replica)
    if not driver.has_room_for(sum(map(len, request.bodies))):
        raise NoSpaceError(f"the disk of {driver.replica.name} is full: nothing was taken")
    for body in request.bodies:
        driver.step(NodeTold(request.node, request.life, request.service, body), is_awaited=True)
    driver.commit()
