"""What other nodes ask: exchanges, pulls and downloads. Answered in every state with what there is, but for downloads.

Knows: how a long answer is cut into items.  Does not know what is pulled or why.

Invariant: an item leaves only when every own event in it is durable; a download hands over the ledger of one instant
first, and then every entry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from distkv.core.ready import AskEvents, JoinerAsked, PeerOffered
from distkv.engine.driver import Driver
from distkv.errors import BadValueError, DistkvError
from distkv.model.event import Event, NodeName
from distkv.model.pages import pages
from distkv.wire.codec import Payload, encode_payload
from distkv.wire.message import EventBatch, SnapshotHead, TickMaps
from distkv.wire.replies import encode_end, encode_start
from distkv.wire.request import ExchangeRequest, GetEvents, GetPages, GetSnapshot

BATCH_EVENTS: Final = 500
BATCH_BYTES: Final = 256 << 10

Send: TypeAlias = Callable[[int, Payload | bytes], Awaitable[None]]
"""Sends one part of the answer with this seq; returns when it has left."""


def exchange(driver: Driver, request: ExchangeRequest) -> bytes:
    """Take the peer's tick maps, answer with ours.

    Raises:
        RequestError: it belongs to another network.
    """
    reply = driver.step(PeerOffered(request.maps))
    if isinstance(reply, DistkvError):
        raise reply
    if not isinstance(reply, TickMaps):
        raise TypeError(f"an exchange was answered with {type(reply).__name__}")
    return encode_payload(request.seq, reply)


async def send_events(driver: Driver, request: GetEvents, send: Send) -> None:
    """Answer a pull, as of one instant: the events that are here, then what is superseded and what is not here.

    Of what the asker only doubts it has the content.
    """
    seq = request.seq
    await send(seq, encode_start(seq))
    asked = AskEvents(request.nodes, request.doubted, request.ticks, request.limit)
    events, end = driver.replica.pulled(asked)
    await _send_batches(events, seq, send)
    await send(seq, end)
    await send(seq, encode_end(seq))


async def send_pages(driver: Driver, request: GetPages, send: Send) -> None:
    """Compare trees: what each page comes to, made when it is sent."""
    seq = request.seq
    await send(seq, encode_start(seq))
    for page in pages(driver.replica.tree, request.after, request.until, request.size):
        await send(seq, page)
    await send(seq, encode_end(seq))


async def send_snapshot(driver: Driver, request: GetSnapshot, send: Send) -> None:
    """Sponsor a joiner: register it, then hand over everything.

    Raises:
        RequestError: this node is not ready, or its disk is full, or the name is taken.
    """
    driver.check_room(0)
    head = driver.step(JoinerAsked(NodeName(request.node), request.created, request.addr))
    if isinstance(head, DistkvError):
        raise head
    if not isinstance(head, SnapshotHead):
        raise BadValueError("no snapshot")
    seq = request.seq
    # Of the same instant as the head: the tree changes while we send. What comes later is gossiped.
    events = [event for entry in driver.replica.tree.entries() for event in (entry.head, *entry.losers)]
    await send(seq, encode_start(seq))
    await send(seq, head)
    await _send_batches(events, seq, send)
    await send(seq, encode_end(seq))


async def _send_batches(events: Iterable[Event], seq: int, send: Send) -> None:
    batch: list[Event] = []
    size = 0
    for event in events:
        batch.append(event)
        size += len(event.value)
        if len(batch) >= BATCH_EVENTS or size >= BATCH_BYTES:
            await send(seq, EventBatch(tuple(batch)))
            batch, size = [], 0
    if batch:
        await send(seq, EventBatch(tuple(batch)))
