"""The Serf agent beside a server: what it carries, what it holds, and what it drops without a word.

Knows: the stream's room, and the transport's own rules for what leaves when (`distkv.transport.outgoing`).  Does not
know hosts, nor when anything happens: `now` is handed in.

Invariant: as that of `Outgoing`: each event leaves once, or is announced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from distkv.transport.budget import Budget
from distkv.transport.outgoing import Outgoing
from distkv.wire.gossip import GossipKind, decode_message
from distkv.wire.message import Message, Update

STREAM_EVENTS: Final = 512
"""What a stream of a Serf agent holds for a reader that does not read; the rest is dropped."""
ROOM_BYTES: Final = 1300
GATHER_S: Final = 0.03


@attrs.define
class Agent:
    """One agent, which may outlive its server."""

    is_up: bool = False
    seen: dict[str, str] | None = None
    """The members that the server was told of last."""
    doubts_ms: int = 0
    """For how long another agent must be silent, or there again, before it is taken for that."""
    stream_events: int = STREAM_EVENTS
    held: int = 0
    """How many events wait in the stream of a server that does not read."""
    next_ms: int | None = None
    """When something is to be done for what is gathered."""
    _outgoing: Outgoing | None = None
    """None: everything is carried at once."""
    _view: dict[str, str] | None = None
    _view_since_ms: int = 0

    def limit(self, packets_per_s: float | None, agents: int) -> None:
        """Carry no more than that; None: what was measured of so many agents."""
        self._outgoing = Outgoing(Budget(packets_per_s, agents), GATHER_S)
        self._outgoing.open(dict.fromkeys(GossipKind, ROOM_BYTES))

    @property
    def is_limited(self) -> bool:
        return self._outgoing is not None

    def believes(self, alive: dict[str, str], now_ms: int) -> bool:
        """Whether the agents that answer now have been the same for long enough."""
        if self._view is not alive and self._view != alive:
            self._view, self._view_since_ms = alive, now_ms
        return now_ms - self._view_since_ms >= self.doubts_ms

    def put(self, message: Message, now_ms: int) -> None:
        """The server sends something."""
        if self._outgoing is not None:
            self._outgoing.put(message, now_ms / 1000)

    def heard(self, message: Message, now_ms: int) -> None:
        """Another server said something: the share of each depends on how many write."""
        if self._outgoing is not None:
            header = message.header
            self._outgoing.budget.note(now_ms / 1000, header.node, header.tick, is_update=isinstance(message, Update))

    def flush(self, now_ms: int) -> bool:
        """Pack what was gathered long enough; whether the server is to announce what finds no place."""
        return self._outgoing is not None and self._outgoing.flush(now_ms / 1000)

    def leaving(self) -> Iterator[tuple[Message, int]]:
        """What leaves now, as the others will read it, and how many bytes it has."""
        outgoing = self._outgoing
        while outgoing is not None and (packet := outgoing.next_packet()) is not None:
            outgoing.sent(packet)
            yield decode_message(packet.kind.value, packet.payload), len(packet.payload)

    def next_flush_ms(self, now_ms: int) -> int | None:
        """When `flush` has something to do."""
        if self._outgoing is None:
            return None
        at_s = self._outgoing.next_flush_at(now_ms / 1000)
        return None if at_s == float("inf") else max(now_ms + 1, int(at_s * 1000) + 1)
