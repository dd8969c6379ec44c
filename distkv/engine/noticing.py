"""What links say of who is there, for the messenger.

Knows: how often it wants to hear of a node.  Does not know links, nor what the messenger makes of it.

Invariant: of a node that is well it is told at most once in `EVERY_S`; of a link that broke each time, and of what
comes from that node afterwards at once. What is remembered is of registered nodes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from distkv.model.event import NodeName
from distkv.transport.base import Transport

EVERY_S: Final = 0.9
"""A node that has nothing to say on a link says each second that it is there."""


class Noticing:
    """Of one node; without a messenger nothing is told."""

    def __init__(self, transport: Transport | None, is_registered: Callable[[NodeName], bool]) -> None:
        self._transport: Final = transport
        self._is_registered: Final = is_registered
        self._told_s: Final = dict[NodeName, float]()

    def heard(self, name: NodeName) -> None:
        """Something came from it on a link."""
        now_s = trio.current_time()
        if self._transport is None or now_s < self._told_s.get(name, now_s) or not self._is_registered(name):
            return
        self._told_s[name] = now_s + EVERY_S
        self._transport.noticed(name, is_well=True)

    def broke(self, name: NodeName) -> None:
        """Its link broke, or none can be had."""
        if self._transport is not None and self._is_registered(name):
            self._told_s.pop(name, None)
            self._transport.noticed(name, is_well=False)
