"""Requests of which a part came, on all connections: what is kept of them is bounded, and not for ever.

Knows: how much each connection has of one, and since when.  Does not know what is in it.

Invariant: all together have at most the limit, besides what one read brings; none is older than `HALF_S` and
`LOOK_S`.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs
import trio

from distkv.engine.scarce import give_back_memory
from distkv.errors import BusyError

HALF_S: Final = 60.0
"""Within so long a request has to come whole."""
LOOK_S: Final = 5.0
MANY: Final = 32
"""After so many connections that have ended the memory that they had goes back to the system."""


class HalfConnection(Protocol):
    """One that has a part of a request."""

    def end(self, error: BusyError) -> None:
        """Say why, and end it."""


@attrs.define
class HalfRequest:
    """What a connection has."""

    since_s: float
    size: int


class HalfRequests:
    """Those of one node."""

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
