"""What each node announces of itself to all others, to bytes and back.

Knows: the fields of an announcement (docs: client protocol).  Does not know how it travels, nor what becomes of it.

Invariant: what is read is well-formed, whatever the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from distkv.errors import BadValueError, DecodeError
from distkv.model.event import NodeName
from distkv.wire import packing
from distkv.wire.fields import bad, read_address, read_int, read_map, read_node
from distkv.wire.values import check_nesting

ANNOUNCE: Final = "announce"
"""The service whose frames these are."""
COUNT_MAX: Final = 2**31 - 1
LEVEL_MAX: Final = 64
BYTES_MAX: Final = 4096
"""Each node keeps that of each other one, and shows them all."""


@attrs.frozen
class Announcement:
    """SERVER_ANNOUNCE: one node, as it sees itself. Its id is the origin of the frame."""

    addr: str
    """HOST:PORT; empty when nobody can connect to it."""
    load: int
    """How many connections it serves."""
    level: int
    """The root has 0, a child one more than its parent."""
    height: int
    """How many levels there are below it."""
    children: int
    parent: NodeName | None
    """None: it is a root."""
    services: Mapping[str, object] = attrs.field(factory=dict)
    """What services add."""


def encode_announcement(what: Announcement) -> bytes:
    """The body of a frame."""
    return packing.pack(attrs.asdict(what, recurse=False))


def decode_announcement(data: bytes) -> Announcement:
    """What the body of a frame announces.

    Raises:
        DecodeError: it is no announcement.
    """
    if len(data) > BYTES_MAX:
        raise DecodeError(f"the announcement has {len(data)} bytes: {BYTES_MAX} are the most", "announcement")
    fields = read_map(packing.unpack_whole(data), "announcement")
    parent, services = fields.get("parent"), read_map(fields.get("services"), "services")
    if not all(type(name) is str for name in services):
        raise bad("services", "named with text", fields["services"])
    try:
        check_nesting(list(services.values()))
    except BadValueError as error:
        raise DecodeError(f"services: {error}", "announcement") from None
    return Announcement(
        read_address(fields),
        read_int(fields, "load", COUNT_MAX),
        read_int(fields, "level", LEVEL_MAX),
        read_int(fields, "height", LEVEL_MAX),
        read_int(fields, "children", COUNT_MAX),
        None if parent is None else read_node(parent, "parent"),
        {str(name): found for name, found in services.items()},
    )
