"""Where the clients of other nodes are sent to.

Knows: what was set, and what is bound.  Does not know who goes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import trio

from distkv.core.activity.config import ActivityConfig
from distkv.naming import UNIX, parse_address

EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
"""What is bound when all addresses of a host are."""


class ListenerPlace(NamedTuple):
    """The address of a listener."""

    host: str
    port: int


def place_of(config: ActivityConfig, listeners: Sequence[trio.SocketListener], node_addr: str) -> ListenerPlace:
    """That of this node: as it is set, else as it is bound. When all addresses of the host are bound it is the host of
    the node's own address."""
    if config.advertise is not None:
        return ListenerPlace(*parse_address(config.advertise, "activity.advertise"))
    bound = listeners[0].socket.getsockname()
    host, port = str(bound[0]), int(bound[1])
    if host in EVERYWHERE and node_addr and not node_addr.startswith(UNIX):
        host, _ = parse_address(node_addr, "the node's address")
    return ListenerPlace(host, port)
