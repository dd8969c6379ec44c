"""How a node asks another one: what the driver needs of it.

Knows: the questions.  Does not know connections (`transport.pull.PeerCaller`); tests have fakes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from distkv.model.event import NodeName, Tick
from distkv.model.tick_ranges import TickRanges
from distkv.transport.base import FollowHooks
from distkv.wire.codec import Payload
from distkv.wire.replies import Hello
from distkv.wire.request import Follow, NodeTell, PeerRequest


class Caller(Protocol):
    """How a request reaches a peer: `transport.pull.PeerCaller`, or a fake."""

    def begin(self, nursery: trio.Nursery) -> None:
        """Its connections live in this nursery."""

    async def call(self, addr: str, request: PeerRequest, take: Callable[[Payload], Awaitable[None]]) -> None:
        """Send `request` to the node at `addr` and hand every item of the answer to `take`.

        Raises:
            DistkvError: what the peer refused with, or PeerError when it cannot be reached or talks nonsense.
        """

    async def greeting(self, addr: str) -> Hello:
        """What the node at `addr` says of itself, within some seconds.

        Raises:
            PeerError: nobody answers there, or it is no node.
        """

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:
        """Wait, some seconds at the most, until the node at `addr` holds later events than these; raises as `call`."""

    async def follow(self, addr: str, request: Follow, silent_s: float, hooks: FollowHooks) -> None:
        """Follow the node at `addr` until it ends; raises as `call`, and at its end."""

    def tell(self, addr: str, request: NodeTell, dropped: Callable[[int], object]) -> None:
        """Send it to the node at `addr`, now or soon; `dropped` hears of how much is not sent. Never waits."""
