"""One request to a peer, as the node that asks sees it, without an event loop.

Knows: how a question of the core becomes a request, and how much room its answer needs.  Does not know how a request
travels, nor what is asked why.

Invariant: nothing is taken in for which the disk has no room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from distkv.core.ready import Ask, AskEvents, AskMaps, AskPages, AskSnapshot
from distkv.core.replica import Replica
from distkv.errors import PeerError
from distkv.wire.codec import Payload
from distkv.wire.request import ExchangeRequest, GetEvents, GetPages, GetSnapshot, PeerRequest
from distkv.wire.room import answer_room

DOWNLOAD_BYTES: Final = 1 << 20
"""Without room for so much no download is begun: sponsors would register us again and again in vain."""
_SEQ: Final = 1
"""Of the only request of a connection."""

HasRoom = Callable[[int], bool]
"""Whether the disk takes so many bytes."""


def request_of(ask: Ask, replica: Replica) -> PeerRequest:
    """The request, as of now; it may leave when all is durable that it shows."""
    what = ask.what
    match what:
        case AskMaps():
            return ExchangeRequest(_SEQ, replica.maps(what))
        case AskEvents(ranges=ranges, doubted=doubted, ticks=ticks, limit=limit):
            return GetEvents(_SEQ, ranges, doubted, ticks, limit, replica.network_id)
        case AskPages(after=after, until=until, size=size):
            return GetPages(_SEQ, size, after, until, replica.network_id)
        case AskSnapshot():
            return GetSnapshot(_SEQ, replica.name, replica.started, replica.settings.addr)
    assert_never(what)


def check_begin(ask: Ask, has_room: HasRoom) -> None:
    """Whether to ask at all.

    Raises:
        PeerError: the disk has no room for the answer.
    """
    if isinstance(ask.what, AskSnapshot) and not has_room(DOWNLOAD_BYTES):
        raise PeerError("the disk is full, nothing is downloaded")


def check_part(answer: Payload, has_room: HasRoom) -> None:
    """Whether to take in a part of the answer.

    Raises:
        PeerError: the disk has no room for it; the rest is given up, too.
    """
    size = answer_room(answer)
    if size and not has_room(size):
        raise PeerError("the disk is full, what the peer sends was given up")
