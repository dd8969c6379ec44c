"""What a watcher is sent, to bytes and back: changes, conflicts, marks, tokens.

Knows: the form of all of them.  Does not know who watches what, nor what a token is worth.

Invariant: an item is packed once, without saying for whom; `replies.addressed` gives it to one watch without packing it
anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import attrs

from distkv.errors import DecodeError
from distkv.model.event import Event, Kind, NodeName
from distkv.model.fence import NO_FENCE
from distkv.model.path import Path
from distkv.wire import packing
from distkv.wire.events import shown_fence

_VALUE_KEY: Final = packing.pack("value")


class Mark(StrEnum):
    """The `state` of a frame that is no item."""

    START = "start"
    UP_TO_DATE = "uptodate"
    RESYNC = "resync"
    END = "end"


@attrs.frozen(slots=True)
class Token:
    """From where on a watch has still to be told: a place in the log of one life of one node."""

    node: str
    life: int
    lsn: int
    """The first record that it was not told of."""


def encode_token(token: Token) -> bytes:
    return packing.pack_plain([token.node, token.life, token.lsn])


def decode_token(data: bytes) -> Token | None:
    """The token in `data`; None when it is none of this release."""
    try:
        packing.check_whole(data)
        parts = packing.unpack(data)
    except DecodeError:
        return None
    match parts:
        case [str(node), int(life), int(lsn)]:
            return Token(node, life, lsn)
    return None


def encode_item(event: Event, token: Token | None) -> bytes:
    """What a path holds now. Without a token it belongs to what is shown at the start."""
    node, tick = event.link
    fields: dict[str, object] = {
        "seq": 0, "path": [*event.path.names], "node": node, "tick": tick, "tock": event.tock, "time": event.time
    }  # fmt: skip
    if token is not None:
        fields["token"] = encode_token(token)
    if event.kind is Kind.EXPIRE:
        fields["expired"] = True
    if event.fence is not NO_FENCE:
        fields |= shown_fence(event.fence)
    packed = packing.pack_plain(fields)
    if event.kind is not Kind.SET:
        return packed
    # The map is short, so its header is one byte that counts the pairs: count one more, and append it.
    return b"".join((bytes((packed[0] + 1,)), packed[1:], _VALUE_KEY, event.value))


def encode_conflict(path: Path, losers: Iterable[Event]) -> bytes:
    """The open losers of a path, all of them, as they are now; none: its conflict is over."""
    shown = [
        {
            "node": loser.node, "tick": loser.tick, "tock": loser.tock, "time": loser.time,
            "deleted": loser.kind is not Kind.SET, **shown_fence(loser.fence),
        }
        for loser in losers
    ]  # fmt: skip
    return packing.pack({"seq": 0, "conflict": {"path": path.names, "open": shown}})


def encode_missed(counts: Mapping[NodeName, int], token: Token) -> bytes:
    """So many changes of these nodes were superseded before they came."""
    return packing.pack_plain({"seq": 0, "missed": dict(counts), "token": encode_token(token)})


def encode_lost(path: Path | None) -> bytes:
    """What a path held is lost; None: nobody knows which path."""
    return packing.pack({"seq": 0, "lost": None if path is None else path.names})


def encode_mark(seq: int, mark: Mark, token: Token | None = None) -> bytes:
    fields: dict[str, object] = {"seq": seq, "state": mark.value}
    if token is not None:
        fields["token"] = encode_token(token)
    return packing.pack(fields)
