"""What each node announces of itself to all others, to bytes and back.

Knows: the fields of an announcement (docs: client protocol).  Does not know how it travels, nor what becomes of it.

Invariant: as in `declared`; what services add nests as values may, and is of what a value may hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from distkv.errors import BadValueError, DecodeError
from distkv.wire import packing
from distkv.wire.declared import BodyReader, Bounds, Declared, Node, field, pack
from distkv.wire.fields import read_address
from distkv.wire.values import check_nesting

ANNOUNCE: Final = "announce"
"""The service whose frames these are."""
COUNT_MAX: Final = 2**31 - 1
LEVEL_MAX: Final = 64
BYTES_MAX: Final = 4096
"""Each node keeps that of each other one, and shows them all."""

Count: TypeAlias = Annotated[int, Bounds(ge=0, le=COUNT_MAX)]
Level: TypeAlias = Annotated[int, Bounds(ge=0, le=LEVEL_MAX)]


class Announcement(Declared):
    """SERVER_ANNOUNCE: one node, as it sees itself. Its id is the origin of the frame."""

    addr: str
    """HOST:PORT; empty when nobody can connect to it."""
    load: Count
    """How many connections it serves."""
    level: Level
    """The root has 0, a child one more than its parent."""
    height: Level
    """How many levels there are below it."""
    children: Count
    parent: Node | None = None
    """None: it is a root."""
    services: Mapping[str, object] = field(default_factory=dict)
    """What services add."""


_READER: Final = BodyReader[Announcement](Announcement, "announcement")


def encode_announcement(what: Announcement) -> bytes:
    """The body of a frame."""
    return pack(what)


def decode_announcement(data: bytes) -> Announcement:
    """What the body of a frame announces.

    Raises:
        DecodeError: it is no announcement.
    """
    if len(data) > BYTES_MAX:
        raise DecodeError(f"the announcement has {len(data)} bytes: {BYTES_MAX} are the most", "announcement")
    found = _READER.read(data)
    read_address({"addr": found.addr})
    try:
        check_nesting([*found.services.values()])
        packing.pack(found.services)  # as it is shown
    except (BadValueError, TypeError, ValueError) as error:
        raise DecodeError(f"the field 'services': {error}", "bad_services") from None
    return found
