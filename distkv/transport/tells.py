"""What services tell other nodes: one-way messages on the connection that there is to each, or is opened for it.

Knows: what waits for which address.  Does not know what is told, nor which connection leads where (`pull`).

A message that can leave at once costs one write on the socket. While a connection is being opened, or its other end
does not read, one task for the address sends what waits, and everything beyond the bounds is dropped: whoever wants to
be heard says it again. After an attempt that failed the address has peace for a moment.

Invariant: at most `limits.tells` messages and `limits.tell_bytes` of them wait for an address; what is dropped is told
once to whoever told it; messages of one service that leave on one connection leave in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import trio

from distkv.config import Limits
from distkv.transport.peer_line import PeerLine
from distkv.wire.peering import TELL_BODIES_MAX
from distkv.wire.request import NodeTell

TELL_BYTES: Final = 64 << 10
"""A request has no more bytes of bodies than these, but for one that is larger by itself."""
PEACE_S: Final = 1.0
"""So long nothing is tried after an attempt to reach an address failed."""

Dropped: TypeAlias = Callable[[int], object]
"""Called with a number of messages that were dropped."""


@attrs.define(eq=False)
class _Backlog:
    """What waits for one address."""

    requests: deque[tuple[NodeTell, Dropped]] = attrs.field(factory=deque)
    count: int = 0
    """How many bodies they have, and how many bytes of them there are."""
    size: int = 0

    def put(self, request: NodeTell, dropped: Dropped) -> None:
        self.requests.append((request, dropped))
        self.count += len(request.bodies)
        self.size += _size(request)

    def take(self) -> list[tuple[NodeTell, Dropped]]:
        """The next ones that can leave as one request."""
        found: list[tuple[NodeTell, Dropped]] = []
        count = size = 0
        while self.requests:
            request, _ = self.requests[0]
            count, size = count + len(request.bodies), size + _size(request)
            fits = count <= TELL_BODIES_MAX and size <= TELL_BYTES
            if found and not (fits and attrs.evolve(request, bodies=()) == attrs.evolve(found[0][0], bodies=())):
                break
            found.append(self.requests.popleft())
            self.count -= len(request.bodies)
            self.size -= _size(request)
        return found


class Tells:
    """Those of one node to all others."""

    def __init__(self, line: Callable[[str], PeerLine], limits: Limits) -> None:
        """`line` gives the connection to the node at an address, maybe one that is being opened."""
        self._line: Final = line
        self._limits: Final = limits
        self._waiting: Final = dict[str, _Backlog]()
        self._peace_until: Final = dict[str, float]()

    def tell(self, addr: str, request: NodeTell, dropped: Dropped, nursery: trio.Nursery) -> None:
        """Send it to the node at an address as soon as that is possible; never waits. `dropped` is called, now or
        later, when it is not sent."""
        waiting = self._waiting.get(addr)
        if waiting is None:
            if not self._is_tried(addr) or _size(request) > self._limits.tell_bytes:
                dropped(len(request.bodies))
                return
            if self._line(addr).tell_nowait(lambda seq: attrs.evolve(request, seq=seq)):
                return
            waiting = self._waiting[addr] = _Backlog()
            nursery.start_soon(self._send_all, addr, waiting)
        count, size = waiting.count + len(request.bodies), waiting.size + _size(request)
        if count > self._limits.tells or size > self._limits.tell_bytes:
            dropped(len(request.bodies))
        else:
            waiting.put(request, dropped)

    # -- inside

    def _is_tried(self, addr: str) -> bool:
        now = trio.current_time()
        if self._peace_until.get(addr, now) > now:
            return False
        self._peace_until.pop(addr, None)
        return True

    async def _send_all(self, addr: str, waiting: _Backlog) -> None:
        """Until nothing waits, or the node cannot be reached."""
        try:
            while found := waiting.take():
                request = attrs.evolve(found[0][0], bodies=tuple(body for one, _ in found for body in one.bodies))
                if not await self._send(addr, request):
                    self._give_up(addr, [*found, *waiting.requests])
                    return
        finally:
            del self._waiting[addr]

    async def _send(self, addr: str, request: NodeTell) -> bool:
        """Whether it left. A connection that turns out to be broken is opened anew, once."""
        for _ in range(2):
            line = self._line(addr)
            was_open = line.is_open
            await line.say(lambda seq: attrs.evolve(request, seq=seq))
            if line.is_open:
                line.keep()
                return True
            if not was_open:
                break
        return False

    def _give_up(self, addr: str, left: list[tuple[NodeTell, Dropped]]) -> None:
        now = trio.current_time()
        for other in [other for other, until in self._peace_until.items() if until <= now]:
            del self._peace_until[other]
        self._peace_until[addr] = now + PEACE_S
        for request, dropped in left:
            dropped(len(request.bodies))


def _size(request: NodeTell) -> int:
    return sum(map(len, request.bodies))
