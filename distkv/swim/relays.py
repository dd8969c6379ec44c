"""What a node does with pings for others, and with the answers to them.

Knows: which pings it passed on for whom.  Does not know what they are for.

Invariant: a ping is passed on once, and only for a member; an answer goes back to where the ping came from
(docs/protocol, SWIM-24 to SWIM-26).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.node import SwimNode
from distkv.swim.turn import SwimTurn, Teller
from distkv.wire.swim_frames import Nack, PingFrame, PongFrame
from distkv.wire.swim_records import NodeId

TTL_MOST: Final = 4
"""A higher one counts as this."""
PASSED_MAX: Final = 1024
"""Of so many pings it is remembered for whom they were passed on."""
NACK_PERCENT: Final = 25
"""Of an interval: after so long without an answer whoever asked is told."""


@attrs.define(slots=True, eq=False)
class _Passed:
    teller: Teller
    target: NodeId
    is_answered: bool = False


class Relays:
    """Pings that one node passed on."""

    def __init__(self, node: SwimNode) -> None:
        self._node = node
        self._passed = dict[tuple[NodeId, int], _Passed]()
        self._due = list[tuple[int, int, tuple[NodeId, int]]]()
        self._count = 0

    def wake_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    def ping(self, teller: Teller, ping: PingFrame, turn: SwimTurn) -> None:
        """A member asks for another node; what it says is for that one."""
        node, key, ttl = self._node, (ping.source, ping.seq), min(ping.ttl, TTL_MOST)
        if key in self._passed or ttl == 0:
            return
        target = node.table.entries.get(ping.target.node)
        if target is None and ttl > 1:
            target = next(iter(node.table.some_live(1, node.rng, ping.source.node)), None)
        if target is None:
            return
        while len(self._passed) >= PASSED_MAX:
            del self._passed[next(iter(self._passed))]
        self._passed[key] = _Passed(teller, ping.target)
        self._count += 1
        heappush(self._due, (turn.now_ms + node.settings.interval_ms * NACK_PERCENT // 100, self._count, key))
        passed = attrs.evolve(ping, ttl=ttl - 1)
        node.send(target.address, target.record.start, passed, turn)

    def pong(self, pong: PongFrame, turn: SwimTurn) -> bool:
        """An answer to one that was passed on goes back; whether it was such a one."""
        passed = self._passed.get((pong.source, pong.seq))
        if passed is None or passed.is_answered:
            return False
        passed.is_answered = True
        self._node.send(passed.teller.address, passed.teller.start, pong, turn)
        return True

    def run(self, turn: SwimTurn) -> None:
        """Whoever waits too long is told so."""
        while self._due and self._due[0][0] <= turn.now_ms:
            key = heappop(self._due)[2]
            passed = self._passed.get(key)
            if passed is not None and not passed.is_answered:
                nack = Nack(key[0], passed.target, key[1])
                self._node.send(passed.teller.address, passed.teller.start, nack, turn)

    def check(self) -> None:
        must(len(self._passed) <= PASSED_MAX, "few pings are remembered")
