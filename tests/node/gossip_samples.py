"""Well-formed messages for tests of transports.

Knows: how to make small ones.  Does not know what a test does with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.state import State
from distkv.transport.base import Report
from distkv.wire.message import Header, Info, Ping, PingLink, Start, Update

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
START = Start(1_700_000_000.0, 4711)
NETWORK = b"\x01" * 8


def header(node: NodeName, tick: int, *, full: bool = True) -> Header:
    network, start = (NETWORK, START) if full else (None, None)
    return Header(node, Tick(tick), Tock(tick + 100), 0, network, start)


def event(node: NodeName, tick: int, size: int = 20) -> Event:
    """One whose value packs to about `size` bytes."""
    value = b"\xc4\xff" + bytes(255) if size == 257 else b"\xc5" + size.to_bytes(2, "big") + bytes(size)
    return Event(Path(["sensors", f"n{tick}"]), Kind.SET, value, ((node, Tick(tick)),), Tock(tick + 100), 1.7e9)


def update(node: NodeName, tick: int, size: int = 20) -> Update:
    return Update(header(node, tick, full=False), (event(node, tick, size),))


def ping(node: NodeName, tick: int) -> Ping:
    link = PingLink(node, Tick(tick), Tock(tick + 100))
    return Ping(header(node, tick), (link,), "127.0.0.1:1", State.READY, 7, b"h" * 8)


def info(node: NodeName, tick: int, others: Sequence[str] = ()) -> Info:
    ticks = {NodeName(name): [Tick(tick)] for name in [node, *others]}
    return Info(header(node, tick), "127.0.0.1:1", State.READY, ticks, b"h" * 8)


class Reports(list[Report]):
    """What a transport reported."""

    def of(self, kind: type[Report]) -> list[Report]:
        return [report for report in self if type(report) is kind]

    def kinds(self) -> list[str]:
        return [type(report).__name__ for report in self]
