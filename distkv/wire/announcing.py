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
GROUND: Final = "ground"
"""What the ground of services adds stands under this name, which no service has."""
FENCES: Final = {"fences": 1}
"""A node that announces this knows fences of entries of services (docs/protocol, FENCE-8)."""
COUNT_MAX: Final = 2**31 - 1
LEVEL_MAX: Final = 64
BYTES_MAX: Final = 4096
"""Each node keeps that of each other one, and shows them all."""
FIELDS_BYTES_MAX: Final = 512
"""Of what one service adds."""
SERVICES_BYTES_MAX: Final = 3072
"""Of what all of them add: the other fields need less than what is left."""

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
    services: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """What services add, by their names."""


_READER: Final = BodyReader[Announcement](Announcement, "announcement")
_FIELDS: Final = BodyReader[Mapping[str, object]](Mapping[str, object], "fields")


def checked_fields(fields: Mapping[str, object]) -> Mapping[str, object]:
    """What a service adds, as others read it.

    Raises:
        ValueError: it is no map with names that are text, cannot be packed, or is too large.
    """
    try:
        data = packing.pack(dict(fields))
        if len(data) > FIELDS_BYTES_MAX:
            raise ValueError(f"the fields have {len(data)} bytes: {FIELDS_BYTES_MAX} are the most that is announced")
        found = _FIELDS.read(data)
        _check_shown({"": found})
    except (BadValueError, DecodeError, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return found


def fitting(services: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    """The first of these, by name, for which an announcement has room."""
    found, left = dict[str, Mapping[str, object]](), SERVICES_BYTES_MAX
    for name, fields in sorted(services.items()):
        left -= len(packing.pack({name: dict(fields)}))
        if left < 0:
            break
        found[name] = fields
    return found


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
        _check_shown(found.services)
    except (BadValueError, TypeError, ValueError) as error:
        raise DecodeError(f"the field 'services': {error}", "bad_services") from None
    return found


def _check_shown(fields: Mapping[str, Mapping[str, object]]) -> None:
    """Whether people can be shown it; raises all that packing does, or BadValueError."""
    check_nesting([*fields.values()])
    packing.pack(fields)
