"""What a service of another node tells the service of the same name on this one.

Knows: whom it is taken from.  Does not know what it means, nor whether it counts (`core.ground`).

Invariant: each message is an input by itself, in the order in which they were sent; nothing is taken from another
network, nor while the disk is full. A long message is taken as long as a short one is: a service that keeps much of it
looks for room itself, and refuses it with a word. Who asked would hear nothing else, and wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.core.ready import NodeTold
from distkv.engine.driver import Driver
from distkv.engine.turn_work import PORTION, SERVICE_STEP
from distkv.errors import NoSpaceError
from distkv.services.parts import foreign_error, is_foreign
from distkv.wire.request import NodeTell

SMALL: Final = PORTION // SERVICE_STEP
"""So many messages are taken in one turn of the event loop."""
KEPT_BYTES: Final = 4096
"""So much of a message a service may keep without a look at the room there is. For one there is always as much."""


def is_small(request: NodeTell) -> bool:
    """Whether it can be taken at once."""
    return len(request.bodies) <= SMALL


def take(driver: Driver, request: NodeTell) -> None:
    """Hand it to the replica.

    Raises:
        RequestError: it is of another network, or the disk or memory is full.
    """
    _check(driver, request)
    _take(driver, request, request.bodies)


async def take_slowly(driver: Driver, request: NodeTell) -> None:
    """The same for one with more than others want to wait for. When it is cancelled the rest is not taken.

    Raises:
        RequestError: it is of another network, or the disk or memory is full.
    """
    _check(driver, request)
    for begin in range(0, len(request.bodies), SMALL):
        await driver.work.give_way()
        _take(driver, request, request.bodies[begin : begin + SMALL])


def _check(driver: Driver, request: NodeTell) -> None:
    if is_foreign(request.network, driver.replica):
        driver.counters["tell_foreign"] += 1
        raise foreign_error(driver.replica)
    size = sum(map(len, request.bodies))
    driver.check_memory(size)
    if not driver.has_room_for(min(size, KEPT_BYTES * (len(request.bodies) - 1))):
        raise NoSpaceError(f"the disk of {driver.replica.name} is full: nothing was taken")


def _take(driver: Driver, request: NodeTell, bodies: Sequence[bytes]) -> None:
    driver.work.done += SERVICE_STEP * len(bodies)
    for body in bodies:
        driver.step(NodeTold(request.node, request.life, request.service, body))
    driver.commit()
