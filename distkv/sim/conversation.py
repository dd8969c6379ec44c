"""One request to a peer over TCP, part by part, as the engine asks it and the services answer it.

Knows: when each part may leave and arrive.  Does not know what is asked or why.

Invariant: each `Ask` ends with one `PeerDone` within bounded time, if the process that asked lives so long; every part
is made when it is sent, and is durable on the side that takes it before the next one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from distkv.core.ready import (
    Ask,
    AskEvents,
    AskMaps,
    AskPages,
    AskSnapshot,
    Input,
    JoinerAsked,
    PeerAnswered,
    PeerDone,
    PeerOffered,
    Reply,
)
from distkv.errors import DistkvError, PeerError
from distkv.model.event import Event
from distkv.model.pages import pages
from distkv.wire.asking import encode_request
from distkv.wire.codec import Payload, encode_payload, read_payload
from distkv.wire.message import EventBatch, SnapshotHead, TickMaps
from distkv.wire.replies import decode_reply
from distkv.wire.request import GetEvents, GetPages, GetSnapshot
from distkv.wire.room import EVENT_BYTES, answer_room

if TYPE_CHECKING:
    from distkv.sim.fleet import Fleet
    from distkv.sim.host import Host
    from distkv.sim.process import Process

BATCH_EVENTS: Final = 100

Part: TypeAlias = Payload | DistkvError | None
"""A part of an answer; an error refuses, None ends it."""


class Conversation:
    """One request and its answer."""

    def __init__(self, fleet: Fleet, asker: Process, ask: Ask) -> None:
        self._fleet = fleet
        self._asker = asker
        self._ask = ask
        self._peer: Process | None = None
        self._parts: Iterator[Part] = iter(())
        self._progress = 0
        self._is_over = False

    def begin(self) -> None:
        """The request is made now, and leaves when all that it shows is durable."""
        maps, asker = None, self._asker
        match self._ask.what:
            case AskMaps() as what:
                shown, size = _over_the_wire(asker.replica.maps(what))
                maps = shown if isinstance(shown, TickMaps) else None
            case AskEvents(ranges=ranges, doubted=doubted, ticks=ticks, limit=limit):
                size = len(encode_request(GetEvents(1, ranges, doubted, ticks, limit)))
            case AskPages(after=after, until=until, size=page_size):
                size = len(encode_request(GetPages(1, after, until, page_size)))
            case AskSnapshot():
                size = len(encode_request(GetSnapshot(1, asker.host.node, asker.replica.started, asker.host.addr)))
        if isinstance(self._ask.what, AskSnapshot) and not asker.host.disk.has_room(EVENT_BYTES):
            self._travel(lambda: self._fail("the disk is full, nothing is downloaded"))
            return
        asker.when_durable(lambda: self._travel(lambda: self._arrive(maps, size)))
        self._watch()

    def reset(self) -> None:
        """The peer's process has ended."""
        self._travel(lambda: self._fail(f"{self._ask.addr}: the connection broke"))

    # -- on the peer's side

    def _arrive(self, maps: TickMaps | None, size: int) -> None:
        """The request is there, if anybody is."""
        host = self._fleet.at_address(self._ask.addr)
        peer = host.process if host is not None else None
        if host is None or peer is None:
            self._fail(f"{self._ask.addr}: nobody listens")
        elif self._may_pass(host) and not self._is_over:
            self._fleet.transferred(host, self._asker.host, size)
            self._peer = peer
            self._parts = self._answer(peer, maps)
            peer.serving[self] = None
            host.give(peer, self._send_next)

    def _send_next(self) -> None:
        """Make the next part, and send it when everything in it is durable."""
        peer = self._peer
        if peer is None or self._is_over:
            return
        part = next(self._parts, None)
        if part is None or isinstance(part, DistkvError):
            peer.serving.pop(self, None)
        asker = self._asker
        peer.when_durable(lambda: self._travel(lambda: asker.host.give(asker, lambda: self._deliver(peer, part))))

    def _answer(self, peer: Process, maps: TickMaps | None) -> Iterator[Part]:
        what, replica = self._ask.what, peer.replica
        if maps is not None:
            reply = self._offer(peer, PeerOffered(maps))
            if isinstance(reply, TickMaps | DistkvError):
                yield reply
        elif isinstance(what, AskEvents):
            events, end = replica.pulled(what)
            yield from _batches(iter(events))
            yield end
        elif isinstance(what, AskPages):
            yield from pages(replica.tree, what.after, what.until, what.size)
        elif not peer.host.disk.has_room(EVENT_BYTES):
            yield PeerError(f"{peer.host.name}: the disk is full")
        else:
            asker = self._asker
            reply = self._offer(peer, JoinerAsked(asker.host.node, asker.replica.started, asker.host.addr))
            if isinstance(reply, DistkvError):
                yield reply
            elif isinstance(reply, SnapshotHead):
                # Of the same instant: the tree changes while we send. What comes later is gossiped.
                events = [event for entry in replica.tree.entries() for event in (entry.head, *entry.losers)]
                yield reply
                yield from _batches(iter(events))

    def _offer(self, peer: Process, what: Input) -> Reply | None:
        self._fleet.delivered(peer.host, what)
        return peer.step(what).reply

    # -- on the asker's side

    def _deliver(self, peer: Process, part: Part) -> None:
        """A part of the answer is here, or its end."""
        asker, fleet = self._asker, self._fleet
        if self._is_over or not self._may_pass(peer.host):
            return
        if fleet.network.breaks(asker.host.name, peer.host.name):
            self._fail(f"{self._ask.addr}: the connection broke")
        elif part is None or isinstance(part, DistkvError):
            self._end(part)
        elif asker.host.disk.is_short and (room := answer_room(part)) and not asker.host.disk.has_room(room):
            self._fail("the disk is full, what the peer sends was given up")
        else:
            self._progress += 1
            read, size = _over_the_wire(part)
            answer = PeerAnswered(self._ask.id, read)
            fleet.transferred(asker.host, peer.host, size)
            fleet.delivered(asker.host, answer)
            asker.step(answer)
            asker.when_durable(lambda: peer.host.give(peer, self._send_next))
            self._watch()

    # -- between them

    def _travel(self, then: Callable[[], object]) -> None:
        fleet = self._fleet
        fleet.later(fleet.network.answer_ms(self._asker.host.name, self._ask.addr), then)

    def _may_pass(self, other: Host) -> bool:
        """Whether the two sides reach each other; when not, the asker is left to its patience."""
        network = self._fleet.network
        connects = network.connects(self._asker.host.name, other.name)
        if not connects and not network.faults.silence_ms:
            self._fail(f"{self._ask.addr} does not answer")
        return connects

    def _watch(self) -> None:
        """Give up when nothing comes for a while."""
        silence_ms, progress = self._fleet.network.faults.silence_ms, self._progress
        if silence_ms:
            self._fleet.later(silence_ms, lambda: self._give_up(progress))

    def _give_up(self, progress: int) -> None:
        if self._progress == progress and not self._is_over:
            self._fail(f"{self._ask.addr} does not answer")

    def _fail(self, why: str) -> None:
        self._end(PeerError(why))

    def _end(self, error: DistkvError | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        asker, peer = self._asker, self._peer
        if peer is not None:
            peer.serving.pop(self, None)
        asker.host.give(asker, partial(asker.step, PeerDone(self._ask.id, error)))


def _over_the_wire(payload: Payload) -> tuple[Payload, int]:
    """What the other side makes of the bytes, and how many they are."""
    data = encode_payload(1, payload)
    return read_payload(decode_reply(data)), len(data)


def _batches(events: Iterable[Event]) -> Iterator[EventBatch]:
    batch: list[Event] = []
    for event in events:
        batch.append(event)
        if len(batch) == BATCH_EVENTS:
            yield EventBatch(tuple(batch))
            batch = []
    if batch:
        yield EventBatch(tuple(batch))
