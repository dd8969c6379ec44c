"""Whose turn it is to ping: the order of a chain, and the part of a clock that each place in it has.

Knows: ping chains.  Does not know time, nor who is alive.

Invariant: the parts of two places of one chain do not overlap.
Source: the 'Ping sequence' of the server protocol.
"""

from __future__ import annotations

from distkv.model.event import NodeName
from distkv.wire.message import PingChain


def order_of(chain: PingChain) -> list[NodeName]:
    """The distinct nodes of a chain, the latest sender first."""
    return list(dict.fromkeys(link.node for link in chain))


def delay_band(position: int, count: int) -> tuple[float, float]:
    """The part of the second interval in which a node of the chain sends, as fractions of a clock.

    The last of `count` distinct nodes sends in 0-15 %, the latest sender (position 0) in 90-100 %, the others evenly
    between, the later in the chain the earlier.
    """
    if position == 0:
        return 0.90, 1.0
    if position == count - 1:
        return 0.0, 0.15
    width = (0.90 - 0.15) / (count - 2)
    low = 0.15 + (count - 2 - position) * width
    return low, low + width
