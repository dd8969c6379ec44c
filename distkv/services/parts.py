"""What a peer is answered, part by part, without an event loop: a server and the simulator give the same.

Knows: how a long answer is cut.  Does not know how parts leave, nor what is asked why.

Invariant: an answer is of one instant, but for pages, each of which is of the instant in which it is made; no part is
larger than its bounds, but for one whose only event is. A part may leave when all is durable that was decided before
it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.core.ready import AskEvents, Input, JoinerAsked, PeerOffered, Reply
from distkv.core.replica import Replica
from distkv.errors import RequestError
from distkv.model.event import Event, NodeName
from distkv.model.pages import pages
from distkv.services.core_replies import expected
from distkv.wire.codec import Payload
from distkv.wire.message import EventBatch, SnapshotHead, TickMaps
from distkv.wire.request import ExchangeRequest, GetEvents, GetPages, GetSnapshot, PeerRequest

Step: TypeAlias = Callable[[Input], Reply | None]
"""Hands an input to the replica; gives its reply."""


@attrs.frozen
class PartBounds:
    """How large a part of events becomes."""

    events: int = 500
    size: int = 64 << 10
    """Bytes of values; the last event may take a part beyond."""


BOUNDS: Final = PartBounds()


def answer_parts(
    request: PeerRequest,
    replica: Replica,
    step: Step,
    check_room: Callable[[int], None],
    bounds: PartBounds = BOUNDS,
) -> Iterator[Payload]:
    """The parts of the answer, each made when it is asked for.

    `check_room` raises NoSpaceError when the disk takes no event besides so many bytes.

    Raises:
        DistkvError: the request is refused: it is of another network, the node is not ready, its disk is full. Before
            the first part only.
    """
    match request:
        case ExchangeRequest():
            yield expected(step(PeerOffered(request.maps)), TickMaps)
        case GetEvents(network=network) | GetPages(network=network) if is_foreign(network, replica):
            raise foreign_error(replica)
        case GetEvents():
            # Of what the asker only doubts it has the content.
            asked = AskEvents(request.nodes, request.doubted, request.ticks, request.limit)
            events, end = replica.pulled(asked)
            yield from _batches(events, bounds)
            yield end
        case GetPages():
            yield from pages(replica.tree, request.after, request.until, request.size)
        case GetSnapshot():
            check_room(0)
            joiner = JoinerAsked(NodeName(request.node), request.created, request.addr)
            head = expected(step(joiner), SnapshotHead)
            # Of the same instant as the head: the tree changes while we send. What comes later is gossiped.
            events = [event for entry in replica.tree.entries() for event in (entry.head, *entry.losers)]
            yield head
            yield from _batches(events, bounds)
        case _:
            assert_never(request)


def is_foreign(network: bytes | None, replica: Replica) -> bool:
    """Whether somebody of this network is to get nothing. An address, and the name, life and ticks of a node, may be
    those of another one, which was founded anew."""
    return network is not None and network != replica.network_id


def foreign_error(replica: Replica) -> RequestError:
    """How it is refused."""
    return RequestError(f"{replica.name} belongs to another network; nodes of two networks never merge")


# -- inside -------------------------------------------------------------------------------------------------------


def _batches(events: Iterable[Event], bounds: PartBounds) -> Iterator[EventBatch]:
    batch: list[Event] = []
    size = 0
    for event in events:
        batch.append(event)
        size += len(event.value)
        if len(batch) >= bounds.events or size >= bounds.size:
            yield EventBatch(tuple(batch))
            batch, size = [], 0
    if batch:
        yield EventBatch(tuple(batch))
