"""What the two ends of an edge of the server tree tell each other, to bytes and back.

Knows: the form of the items of `attach` and `tree_say` (docs: client protocol).  Does not know who attaches to whom,
nor what becomes of an item.

Invariant: what is read is well-formed and bounded, whatever the fields: a path has no name twice, a frame has a size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.errors import DecodeError
from distkv.model.event import TICK_MAX, NodeName
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_int, read_list, read_map, read_node
from distkv.wire.replies import addressed

FRAME_BYTES_MAX: Final = 64 << 10
"""The largest body of a frame."""
FRAMES_MAX: Final = 64
"""An item has no more frames than these; and no more bytes of them than one largest frame has."""
PATH_MAX: Final = 64
"""No path is longer, whatever the limit of the sender's tree is."""
NODES_MAX: Final = 4096
"""An item names no more nodes than these."""
HEIGHT_MAX: Final = PATH_MAX
SERVICE_CHARS_MAX: Final = 63
UP_MS_MAX: Final = 2**53
START_MAX: Final = 2**62
"""Far above each clock; starts are times in milliseconds."""

FrameNumbers: TypeAlias = Mapping[NodeName, tuple[int, int]]
"""Of each origin, its start and the number of the last frame."""


@attrs.frozen
class TreeFrame:
    """Something that one node says to all."""

    origin: NodeName
    start: int
    """Which start of the origin it is from; a later one has a larger number."""
    number: int
    """The first one of a start is 1."""
    service: str
    """What it is for."""
    body: bytes
    """Packed by the service."""


@attrs.frozen
class ParentOffer:
    """A node would be a parent; this is its place."""

    path: tuple[NodeName, ...]
    """From that node to the root."""
    height: int
    """How many levels the whole tree has below its root."""


@attrs.frozen
class ParentRefusal:
    """A node will not be the parent, or not any longer; nothing comes after it."""

    reason: str
    others: tuple[NodeName, ...] = ()
    """Who may be asked instead."""


@attrs.frozen
class FramesHeld:
    """What a node that gets an edge has of the frames: the other one tells it the rest."""

    have: FrameNumbers
    """What it was told last by each origin."""
    up_ms: int
    """For how long it has been running; what was said before is not for it."""


@attrs.frozen
class Join:
    """The asking node takes the offer."""

    height: int
    """How many levels there are below it."""
    past: FramesHeld


@attrs.frozen
class ServerInfo:
    """The parent's place, when a child is taken and each time that it changes (SERVER_INFO)."""

    path: tuple[NodeName, ...]
    """From the parent to the root; empty while a node above looks for a parent."""
    height: int
    turn: int = 0
    """Which change it is: what an answer refers to."""
    past: FramesHeld | None = None
    """Said once, when a child is taken."""


@attrs.frozen
class SubtreeHeight:
    """How many levels there are below the child now."""

    height: int


@attrs.frozen
class SubtreeTold:
    """All below the child were told that a node above looks for a parent."""

    turn: int


@attrs.frozen
class TreeFrames:
    """Some frames, in their order."""

    frames: tuple[TreeFrame, ...]


@attrs.frozen
class FramesAcked:
    """So many frames of the other side came on this edge."""

    count: int


@attrs.frozen
class SignOfLife:
    """Nothing else was said for a while."""


EdgeItem: TypeAlias = (
    ParentOffer | ParentRefusal | Join | ServerInfo | SubtreeHeight | SubtreeTold
    | TreeFrames | FramesAcked | SignOfLife
)


def edge_fields(item: EdgeItem) -> dict[str, object]:
    """An item as fields of a map."""
    match item:
        case ParentOffer(path=path, height=height):
            return {"offer": {"path": path, "height": height}}
        case ParentRefusal(reason=reason, others=others):
            return {"refused": {"reason": reason, "others": others}}
        case Join(height=height, past=past):
            return {"join": {"height": height, **_past_fields(past)}}
        case ServerInfo(path=path, height=height, turn=turn, past=past):
            return {"info": {"path": path, "height": height, "turn": turn, **_past_fields(past)}}
        case SubtreeHeight(height=height):
            return {"height": height}
        case SubtreeTold(turn=turn):
            return {"told": turn}
        case TreeFrames(frames=frames):
            return {"frames": [(one.origin, one.start, one.number, one.service, one.body) for one in frames]}
        case FramesAcked(count=count):
            return {"acked": count}
        case SignOfLife():
            return {"ping": True}
        case _:
            assert_never(item)


def _past_fields(past: FramesHeld | None) -> dict[str, object]:
    return {} if past is None else {"have": past.have, "up": past.up_ms}


def encode_edge(item: EdgeItem, seq: int) -> bytes:
    """An item of a parent, in the long result of an `attach`."""
    return addressed(packing.pack({"seq": 0, **edge_fields(item)}), seq)


def read_edge(fields: Fields) -> EdgeItem:
    """An item, from either end.

    Raises:
        DecodeError: it is none.
    """
    for name, read in _READERS.items():
        if name in fields:
            return read(fields, name)
    raise DecodeError(f"an item of an edge has {', '.join(_READERS)}: one of these", "bad_item")


def _read_offer(fields: Fields, name: str) -> ParentOffer:
    found = read_map(fields[name], name)
    return ParentOffer(_read_path(found.get("path"), "path"), read_int(found, "height", HEIGHT_MAX))


def _read_refusal(fields: Fields, name: str) -> ParentRefusal:
    found = read_map(fields[name], name)
    others = _read_names(found.get("others"), "others", NODES_MAX)
    return ParentRefusal(_read_word(found.get("reason"), "reason"), others)


def _read_join(fields: Fields, name: str) -> Join:
    found = read_map(fields[name], name)
    return Join(read_int(found, "height", HEIGHT_MAX), _read_past(found))


def _read_info(fields: Fields, name: str) -> ServerInfo:
    found = read_map(fields[name], name)
    return ServerInfo(
        _read_path(found.get("path"), "path"),
        read_int(found, "height", HEIGHT_MAX),
        read_int(found, "turn", TICK_MAX),
        _read_past(found) if "have" in found else None,
    )


def _read_shape(fields: Fields, name: str) -> SubtreeHeight:
    return SubtreeHeight(read_int(fields, name, HEIGHT_MAX))


def _read_told(fields: Fields, name: str) -> SubtreeTold:
    return SubtreeTold(read_int(fields, name, TICK_MAX))


def _read_frames(fields: Fields, name: str) -> TreeFrames:
    found = read_list(fields[name], name)
    if len(found) > FRAMES_MAX:
        raise DecodeError(f"an item has {len(found)} frames; the limit is {FRAMES_MAX}", "bad_frames")
    return TreeFrames(tuple(map(_read_frame, found)))


def _read_frame(data: object) -> TreeFrame:
    parts = read_list(data, "frames")
    if len(parts) != 5 or type(parts[4]) is not bytes:
        raise bad("frames", "made of [origin, start, number, service, bytes]", data)
    if len(parts[4]) > FRAME_BYTES_MAX:
        raise DecodeError(f"a frame has {len(parts[4])} bytes; the limit is {FRAME_BYTES_MAX}", "bad_frames")
    start, number = _read_number(parts[1:3], "frames")
    return TreeFrame(read_node(parts[0], "frames"), start, number, _read_word(parts[3], "frames"), parts[4])


def _read_acked(fields: Fields, name: str) -> FramesAcked:
    return FramesAcked(read_int(fields, name, TICK_MAX))


def _read_alive(fields: Fields, name: str) -> SignOfLife:
    if fields[name] is not True:
        raise bad(name, "true", fields[name])
    return SignOfLife()


_READERS: Final[Mapping[str, Callable[[Fields, str], EdgeItem]]] = {
    "offer": _read_offer,
    "refused": _read_refusal,
    "join": _read_join,
    "info": _read_info,
    "height": _read_shape,
    "told": _read_told,
    "frames": _read_frames,
    "acked": _read_acked,
    "ping": _read_alive,
}


def _read_path(data: object, name: str) -> tuple[NodeName, ...]:
    path = _read_names(data, name, PATH_MAX)
    if len(set(path)) < len(path):
        raise DecodeError(f"the field '{name}' names a node twice", f"bad_{name}")
    return path


def _read_names(data: object, name: str, limit: int) -> tuple[NodeName, ...]:
    found = read_list(data, name)
    if len(found) > limit:
        raise DecodeError(f"the field '{name}' names {len(found)} nodes; the limit is {limit}", f"bad_{name}")
    return tuple(read_node(one, name) for one in found)


def _read_past(fields: Fields) -> FramesHeld:
    return FramesHeld(_read_numbers(fields.get("have")), read_int(fields, "up", UP_MS_MAX))


def _read_numbers(data: object) -> FrameNumbers:
    found = read_map(data, "have")
    if len(found) > NODES_MAX:
        raise DecodeError(f"the field 'have' names {len(found)} nodes; the limit is {NODES_MAX}", "bad_have")
    return {read_node(node, "have"): _read_number(read_list(pair, "have"), "have") for node, pair in found.items()}


def _read_number(pair: list[object], name: str) -> tuple[int, int]:
    if len(pair) != 2:
        raise bad(name, "a start and a number", pair)
    return read_int({name: pair[0]}, name, START_MAX), read_int({name: pair[1]}, name, TICK_MAX)


def _read_word(data: object, name: str) -> str:
    if type(data) is not str or not 0 < len(data) <= SERVICE_CHARS_MAX or not data.isascii() or not data.isprintable():
        raise bad(name, f"a word of 1 to {SERVICE_CHARS_MAX} characters", data)
    return data
