"""What a node has told the world about itself, read from the bytes that left it; and whether a restart keeps its word.

Knows: where own events, ticks and tocks show in gossip, replies, items and requests to peers.
Does not know how they got there.

Invariant: nothing that left is overlooked because a test did not ask for it: every frame on every connection counts,
and each is held against what the disk had when it left, not when the run was over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from distkv.core.replica import Replica
from distkv.errors import DecodeError
from distkv.model.event import COUNT_BITS, Event, Link
from distkv.model.ranges import Ranges
from distkv.wire.codec import read_payload
from distkv.wire.following import read_item
from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.message import EventBatch, Header, Info, Ping, PullEnd, SnapshotHead, TickMaps, Update
from distkv.wire.replies import decode_reply
from distkv.wire.request import ExchangeRequest
from distkv.wire.watch import decode_token
from tests.node.nodes import Copy, Kept, Sent

Content: TypeAlias = tuple[object, ...]


@attrs.define
class Claims:
    """What `me` said."""

    me: str
    ticks: set[int] = attrs.field(factory=set)
    """Own ticks that it said it used."""
    last: int = 0
    """The highest of them, or of the ticks in its headers."""
    tock: int = 0
    contents: dict[Link, Content] = attrs.field(factory=dict)
    networks: set[bytes] = attrs.field(factory=set)
    lives: set[int] = attrs.field(factory=set)
    records: int = 0
    """So many records of this start's log, which is never settled, it gave watchers to go on behind."""

    def check(self, replica: Replica) -> None:
        """Fail unless a node that comes back as `replica` still stands by all of it."""
        tree = replica.tree
        held = tree.ledger.held().get(replica.name, Ranges())
        lost = sorted(tick for tick in self.ticks if tick not in held)
        assert not lost, f"own ticks that were shown are gone: {lost}"
        assert replica.tick >= self.last, f"tick {self.last} was said, the last one is {replica.tick}"
        assert replica.tock >= self.tock, f"tock {self.tock} was said, it goes on at {replica.tock}"
        assert self.networks <= {replica.network_id or b""}
        said, life = max(self.lives, default=-1), -1 if replica.life is None else replica.life
        assert life >= said, f"life {said} was said, the present one is {life}"
        for link, content in self.contents.items():
            event = tree.event(link)
            assert event is None or content_of(event) == content, f"{link} has another content"

    def check_no_tick_used_twice(self, other: Claims) -> None:
        """Fail if the same tick has another content in what was said before or after."""
        for link, content in self.contents.items():
            assert other.contents.get(link, content) == content, f"{link} has two contents"

    # -- reading

    def own_tick(self, tick: int) -> None:
        if tick & ((1 << COUNT_BITS) - 1):  # else only a life began with it
            self.ticks.add(tick)
        self.last = max(self.last, tick)

    def own_ranges(self, ranges: Mapping[Any, Ranges]) -> None:
        for tick in ranges.get(self.me, Ranges()):
            self.own_tick(tick)

    def header(self, header: Header) -> None:
        self.own_tick(header.tick)
        self.tock = max(self.tock, header.tock)
        if header.network is not None:
            self.networks.add(header.network)
            self.lives.add(header.life)

    def event(self, event: Event) -> None:
        self.tock = max(self.tock, event.tock)
        self.contents[event.link] = content_of(event)
        for node, tick in event.chain:
            if node == self.me:
                self.own_tick(tick)

    def payload(self, payload: object) -> None:
        match payload:
            case TickMaps():
                self.header(payload.header)
                self.own_ranges(payload.held)
                for tick in dict(payload.ticks).get(payload.header.node, []):
                    self.own_tick(tick)
            case EventBatch(events=events) | Update(events=events):
                for event in events:
                    self.event(event)
        match payload:
            case PullEnd(known=known) | SnapshotHead(superseded=known):
                self.own_ranges(known)
        if isinstance(payload, Update | SnapshotHead):
            self.header(payload.header)

    def gossip(self, message: Update | Ping | Info) -> None:
        self.header(message.header)
        if isinstance(message, Update):
            self.payload(message)
        if isinstance(message, Ping):
            for link in message.chain:
                if link.node == self.me and link.tick is not None:
                    self.own_tick(link.tick)
        if isinstance(message, Info) and message.ticks is not None:
            for tick in dict(message.ticks).get(message.header.node, []):
                self.own_tick(tick)

    def reply(self, fields: dict[str, Any]) -> None:
        token = decode_token(fields.get("token") or b"")
        if token is not None and token.node == self.me:
            self.records = max(self.records, token.lsn)
        if "error" in fields or fields.get("state") in ("start", "end"):
            return
        if "records" in fields or "known" in fields:
            item = read_item(fields)
            self.payload(EventBatch(item.events))
            self.own_ranges(item.known)
            return
        try:
            self.payload(read_payload(fields))
        except DecodeError:
            self._simple(fields)

    def request(self, frame: bytes) -> None:
        request = decode_request(frame)
        if isinstance(request, ExchangeRequest):
            self.payload(request.maps)

    def _simple(self, fields: dict[str, Any]) -> None:
        """A greeting, a state, or what a client's read or write is answered."""
        self.tock = max(self.tock, fields.get("tock", 0))
        # A watcher is told of others' changes, too; and who changed nothing, of whoever wrote what is there.
        if "tick" in fields and fields.get("node", self.me) == self.me and fields.get("changed", True):
            self.own_tick(fields["tick"])
        for loser in fields.get("conflict", {}).get("open", []):
            if loser["node"] == self.me:
                self.own_tick(loser["tick"])
        network = fields.get("network")
        if network is not None:
            self.networks.add(bytes.fromhex(network) if isinstance(network, str) else network)
            self.lives.add(fields["life"])
        for part in fields.get("held", {}).get(self.me, []):
            for tick in range(*part) if isinstance(part, list) else [part]:
                self.own_tick(tick)
        link = fields.get("chain")
        while link is not None:
            if link["node"] == self.me:
                self.own_tick(link["tick"])
            link = link.get("prev")


def check_order(me: str, sent: Sent) -> None:
    """Fail unless the disk had, whenever something left, all of our own that it shows.

    So nobody sees what a crash could undo, whether a test tries a crash at that moment or not.
    """
    for claims, kept in _parts(me, sent):
        assert claims.last <= kept.tick, f"tick {claims.last} was shown, the disk had {kept.tick}"
        assert claims.records <= kept.records, f"record {claims.records} was named, the disk had {kept.records}"


def _parts(me: str, sent: Sent) -> Iterator[tuple[Claims, Kept]]:
    """Each thing that left by itself, and what the disk had then."""
    for message, kept in zip(sent.gossip, sent.gossip_kept, strict=True):
        claims = Claims(me)
        claims.gossip(message)
        yield claims, kept
    for stream in sent.as_server:
        for frame, kept in _kept_frames(stream):
            claims = Claims(me)
            claims.reply(decode_reply(frame))
            yield claims, kept
    for stream in sent.as_client:
        for frame, kept in _kept_frames(stream):
            claims = Claims(me)
            claims.request(frame)
            yield claims, kept


def _kept_frames(stream: Copy) -> Iterator[tuple[bytes, Kept]]:
    """Each frame, and what the disk had when the end of it was sent."""
    reader, at = FrameReader(1 << 26), 0
    for size, kept in zip(stream.sizes, stream.kept, strict=True):
        reader.feed(bytes(stream.data[at : at + size]))
        at += size
        while (frame := reader.next_frame()) is not None:
            yield frame, kept


def content_of(event: Event) -> Content:
    return event.path, event.kind, event.value, event.chain, event.tock


def claims_of(me: str, sent: Sent) -> Claims:
    """Everything that `me` said."""
    claims = Claims(me)
    for message in sent.gossip:
        claims.gossip(message)
    for stream in sent.as_server:
        for frame in _frames(stream):
            claims.reply(decode_reply(frame))
    for stream in sent.as_client:
        for frame in _frames(stream):
            claims.request(frame)
    return claims


def _frames(stream: Copy) -> Iterator[bytes]:
    reader = FrameReader(1 << 26)
    reader.feed(bytes(stream.data))
    yield from reader
