"""What waits to leave over gossip: updates gathered, packed, budgeted, or announced; all other kinds at once.

Knows: sizes, and that there is a budget.  Does not know who sends, what may be left out of a message that is too large
(`wire.gossip`), nor waits: `now` is handed in.

Invariant: every event put in leaves in a packet, in order and once, or is counted as unannounced; every other message
leaves or is counted as dropped.  No packet is larger than `room`, nothing here grows without bound.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

import attrs

from distkv.model.event import Event
from distkv.wire.gossip import GossipKind, encode_event, encode_to_fit, encode_update, kind_of, update_overhead
from distkv.wire.message import Header, Message, Update

LEAVING_MAX: Final = 64
"""Packets that wait for the messenger, hardly any of them updates; past it the oldest is dropped."""
GATHERED_MAX: Final = 512
"""Events that wait for a packet; past it they are announced instead."""


class SendBudget(Protocol):
    """How much may leave. `now` is in seconds, and never goes back."""

    def note(self, now: float, node: str, tick: int, *, is_update: bool) -> None:
        """A message of `node` was heard, or is being sent."""

    def available(self, now: float) -> int:
        """How many packets may leave now, however large."""

    def take(self, now: float, sizes: Sequence[int]) -> None:
        """Packets of so many bytes leave. The caller has asked `available`."""

    def wait_s(self, now: float) -> float:
        """How long until at least one may leave; infinite: that depends on others."""


@attrs.frozen(slots=True)
class Packet:
    """The content of one user event, or user message."""

    kind: GossipKind
    payload: bytes
    events: int = 0
    """How many events an update holds."""


def pack(header: Header, events: Sequence[bytes], room: int, packets_max: int) -> tuple[list[Packet], int]:
    """Put encoded events into as few packets as their order allows; says also how many found no place."""
    bare = update_overhead(header)
    groups: list[list[bytes]] = []
    size, left = room, 0
    for event in events:
        if size + len(event) > room or not groups:
            if not fits(header, event, room) or len(groups) == packets_max:
                left += 1
                continue
            groups.append([])
            size = bare
        groups[-1].append(event)
        size += len(event)
    return [Packet(GossipKind.UPDATE, encode_update(header, group), len(group)) for group in groups], left


def fits(header: Header, event: bytes, room: int) -> bool:
    """Whether an encoded event has a place in a packet of its own."""
    return len(encode_update(header, [event])) <= room


@attrs.define
class OutgoingCounts:
    """What became of the messages; for `statistics`."""

    sent: dict[GossipKind, int] = attrs.field(factory=lambda: dict.fromkeys(GossipKind, 0))
    """Packets."""
    sent_events: int = 0
    dropped: dict[tuple[GossipKind, str], int] = attrs.field(factory=dict)
    unannounced: int = 0
    """Events which were not sent and of which the others do not know yet."""
    announced: int = 0
    """Events which were not sent and then announced."""
    announces: int = 0

    def drop(self, kind: GossipKind, reason: str, number: int = 1) -> None:
        self.dropped[kind, reason] = self.dropped.get((kind, reason), 0) + number


class Outgoing:
    """The queues between `broadcast` and the messenger. `rooms` gives payload bytes per kind."""

    def __init__(self, budget: SendBudget, gather_s: float) -> None:
        self.counts = OutgoingCounts()
        self.rooms: dict[GossipKind, int] | None = None
        """None: nothing can be sent."""
        self.budget = budget
        self._gather_s = gather_s
        self._leaving: deque[Packet] = deque()
        self._gathered: list[bytes] = []
        self._header: Header | None = None
        self._flush_at = math.inf

    def open(self, rooms: dict[GossipKind, int]) -> None:
        """From now on packets leave, of these sizes."""
        self.rooms = rooms

    def close(self) -> None:
        """Nothing leaves from now on; what waits is dropped, or announced after the next `open`."""
        self.rooms = None
        while (packet := self.next_packet()) is not None:
            self.unsent(packet, "down")
        self._announce_later(len(self._gathered))
        self._forget()

    def put(self, message: Message, now: float) -> bool:
        """Take a message in; what has no place is counted. Says whether there is something to do that was not."""
        header = message.header
        self.budget.note(now, header.node, header.tick, is_update=isinstance(message, Update))
        if not isinstance(message, Update):
            self._put_urgent(message)
            return True
        before = self.counts.unannounced > 0, self.gathered > 0
        self._put_update(message, now)
        return before != (self.counts.unannounced > 0, self.gathered > 0)

    def unsent(self, packet: Packet, reason: str) -> None:
        """This one did not leave."""
        self.counts.drop(packet.kind, reason)
        self._announce_later(packet.events)

    def sent(self, packet: Packet) -> None:
        self.counts.sent[packet.kind] += 1
        self.counts.sent_events += packet.events

    @property
    def gathered(self) -> int:
        """How many events wait for the next packets."""
        return len(self._gathered)

    def next_packet(self) -> Packet | None:
        """The next to leave; the caller says `sent` or `unsent` of it."""
        return self._leaving.popleft() if self._leaving else None

    def flush(self, now: float) -> bool:
        """Pack the updates that were gathered long enough. Says whether unsent ones are to be announced now.

        When not everything fits the budget, a place is kept for the announcement.  While something is unannounced
        no update is sent: the announcement makes the others fetch it all.
        """
        if now >= self._flush_at and self._header is not None and self.rooms is not None:
            self._pack(self._header, self.rooms[GossipKind.UPDATE], now)
            self._forget()
        rooms = self.rooms
        announces = self.counts.unannounced > 0 and rooms is not None and self.budget.available(now) >= 1
        if announces and rooms is not None:
            self.budget.take(now, (rooms[GossipKind.INFO],))
            self.counts.announced += self.counts.unannounced
            self.counts.unannounced = 0
            self.counts.announces += 1
        return announces

    def next_flush_at(self, now: float) -> float:
        """When `flush` has something to do, if nothing is put in before; infinite: never."""
        if self.counts.unannounced:
            return min(self._flush_at, now + self.budget.wait_s(now))
        return self._flush_at

    def _put_update(self, message: Update, now: float) -> None:
        if self.rooms is None or self.counts.unannounced:  # the announcement will cover these too
            self._announce_later(len(message.events))
            return
        room = self.rooms[GossipKind.UPDATE]
        for event in message.events:
            encoded = self._encode(message.header, event, room)
            if encoded is None or len(self._gathered) >= GATHERED_MAX:
                self._announce_later(1)
                continue
            if not self._gathered:
                self._flush_at = now + self._gather_s
            self._gathered.append(encoded)
            self._header = message.header

    def _put_urgent(self, message: Message) -> None:
        kind = kind_of(message)
        if self.rooms is None:
            self.counts.drop(kind, "down")
            return
        payload = encode_to_fit(message, self.rooms[kind])
        if payload is None:
            self.counts.drop(kind, "size")
            return
        self._leave(Packet(kind, payload))

    def _leave(self, packet: Packet) -> None:
        if len(self._leaving) >= LEAVING_MAX:
            self.unsent(self._leaving.popleft(), "queue")
        self._leaving.append(packet)

    def _pack(self, header: Header, room: int, now: float) -> None:
        if self.counts.unannounced:
            self._announce_later(len(self._gathered))
            return
        places = self.budget.available(now)
        packets, left = pack(header, self._gathered, room, places)
        if left:
            packets, left = pack(header, self._gathered, room, max(0, places - 1))
        self.budget.take(now, [len(packet.payload) for packet in packets])
        self._announce_later(left)
        for packet in packets:
            self._leave(packet)

    def _announce_later(self, events: int) -> None:
        self.counts.unannounced += events

    def _forget(self) -> None:
        self._gathered = []
        self._header = None
        self._flush_at = math.inf

    @staticmethod
    def _encode(header: Header, event: Event, room: int) -> bytes | None:
        """The event's bytes; None when it is too large (looking at the value first saves packing a large one)."""
        if len(event.value) > room:
            return None
        encoded = encode_event(event)
        return encoded if fits(header, encoded, room) else None
