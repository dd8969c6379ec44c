"""What the two ends of an edge of the server tree tell each other.

Knows: the form of the items of `attach` and `tree_say` (docs: client protocol).  Does not know who attaches to whom,
nor what becomes of an item.

Invariant: as in `declared`; a path has no name twice, a frame has a size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple, TypeAlias

from distkv.errors import DecodeError
from distkv.model.event import TICK_MAX
from distkv.wire.declared import BodyReader, Bounds, Declared, Node, field, fields_of, pack
from distkv.wire.fields import Fields
from distkv.wire.replies import addressed

FRAME_BYTES_MAX: Final = 80 << 10
"""The largest body of a frame."""
FRAMES_MAX: Final = 64
"""An item has no more frames than these."""
PATH_MAX: Final = 64
"""No path is longer, whatever the limit of the sender's tree is."""
NODES_MAX: Final = 4096
"""An item names no more nodes than these."""
HEIGHT_MAX: Final = PATH_MAX
SERVICES_MAX: Final = 32
"""Of so many services frames are passed on."""
SERVICE_CHARS_MAX: Final = 63
UP_MS_MAX: Final = 2**53
START_MAX: Final = 2**62
"""Far above each clock; starts are times in milliseconds."""

Start: TypeAlias = Annotated[int, Bounds(ge=0, le=START_MAX)]
Number: TypeAlias = Annotated[int, Bounds(ge=0, le=TICK_MAX)]
Height: TypeAlias = Annotated[int, Bounds(ge=0, le=HEIGHT_MAX)]
UpMs: TypeAlias = Annotated[int, Bounds(ge=0, le=UP_MS_MAX)]
Word: TypeAlias = Annotated[str, Bounds(pattern=rf"\A[ -~]{{1,{SERVICE_CHARS_MAX}}}\Z")]
TreePath: TypeAlias = Annotated[tuple[Node, ...], Bounds(max_length=PATH_MAX)]
FrameNumbers: TypeAlias = Annotated[Mapping[Node, tuple[Start, Number]], Bounds(max_length=NODES_MAX)]
"""Of each origin, its start and the number of the last frame."""


ServiceNumbers: TypeAlias = Annotated[Mapping[Word, FrameNumbers], Bounds(max_length=SERVICES_MAX)]
"""The same of each service."""


class TreeFrame(Declared, array_like=True):
    """Something that one node says to all."""

    origin: Node
    start: Start
    """Which start of the origin it is from; a later one has a larger number."""
    number: Number
    """The first one that a service says in a start is 1."""
    service: Word
    """Who says it, and is to hear it."""
    body: Annotated[bytes, Bounds(max_length=FRAME_BYTES_MAX)]
    """Packed by the service."""


class ParentOffer(Declared):
    """A node would be a parent; this is its place."""

    path: TreePath
    """From that node to the root."""
    height: Height
    """How many levels the whole tree has below its root."""


class ParentRefusal(Declared):
    """A node will not be the parent, or not any longer; nothing comes after it."""

    reason: Word
    others: Annotated[tuple[Node, ...], Bounds(max_length=NODES_MAX)] = ()
    """Who may be asked instead."""


class FramesHeld(NamedTuple):
    """What a node that gets an edge has of the frames: the other one tells it the rest."""

    have: FrameNumbers
    """What it was told last by each origin."""
    up_ms: int
    """For how long it has been running; what was said before is not for it."""
    services: ServiceNumbers | None = None
    """The same as `have`, of frames of services; None: it is of an earlier release, which knows announcements only."""


class Join(Declared, omit_defaults=True):
    """The asking node takes the offer."""

    height: Height
    """How many levels there are below it."""
    have: FrameNumbers
    """Of announcements."""
    up_ms: UpMs = field(name="up")
    services: ServiceNumbers | None = None

    @property
    def past(self) -> FramesHeld:
        return FramesHeld(self.have, self.up_ms, self.services)


class ServerInfo(Declared, omit_defaults=True):
    """The parent's place, when a child is taken and each time that it changes (SERVER_INFO)."""

    path: TreePath
    """From the parent to the root; empty while a node above looks for a parent."""
    height: Height
    turn: Number
    """Which change it is: what an answer refers to."""
    have: FrameNumbers | None = None
    """Said once, when a child is taken; so are the next ones."""
    up_ms: UpMs = field(name="up", default=0)
    services: ServiceNumbers | None = None

    @property
    def past(self) -> FramesHeld | None:
        return None if self.have is None else FramesHeld(self.have, self.up_ms, self.services)


class SubtreeHeight(Declared):
    """How many levels there are below the child now."""

    height: Height


class SubtreeTold(Declared):
    """All below the child were told that a node above looks for a parent."""

    turn: Number = field(name="told")


class TreeFrames(Declared):
    """Some announcements, in their order."""

    frames: Annotated[tuple[TreeFrame, ...], Bounds(max_length=FRAMES_MAX)]


class FramesAcked(Declared):
    """So many announcements of the other side came on this edge."""

    count: Number = field(name="acked")


class ServiceFrames(Declared, omit_defaults=True):
    """Some frames of one service, in their order."""

    service: Word
    frames: Annotated[tuple[TreeFrame, ...], Bounds(max_length=FRAMES_MAX)] = field(name="said")
    gone: FrameNumbers = field(default_factory=dict)
    """Whatever the other end lacks of these origins, up to these numbers, will not come from here."""

    def __post_init__(self) -> None:
        if any(frame.service != self.service for frame in self.frames):
            raise ValueError("all frames of an item are of its service")


class ServiceAcked(Declared):
    """So many frames of a service came on this edge; where some were said to be gone, that counts as one."""

    service: Word
    count: Number = field(name="came")


class SignOfLife(Declared):
    """Nothing else was said for a while."""

    is_alive: bool = field(name="ping", default=True)


EdgeItem: TypeAlias = (
    ParentOffer | ParentRefusal | Join | ServerInfo | SubtreeHeight | SubtreeTold
    | TreeFrames | FramesAcked | ServiceFrames | ServiceAcked | SignOfLife
)

_VALUES: Final[Mapping[str, type[EdgeItem]]] = {
    "offer": ParentOffer, "refused": ParentRefusal, "join": Join, "info": ServerInfo,
}  # fmt: skip
"""Items that are the value of one field."""
_MAPS: Final[Mapping[str, type[EdgeItem]]] = {
    "height": SubtreeHeight, "told": SubtreeTold, "frames": TreeFrames, "acked": FramesAcked,
    "said": ServiceFrames, "came": ServiceAcked, "ping": SignOfLife,
}  # fmt: skip
"""Items that are fields themselves; each is known by one."""
_NAMES: Final = {kind: name for name, kind in _VALUES.items()}
_READERS: Final = {name: BodyReader[EdgeItem](kind, name) for name, kind in ({**_VALUES, **_MAPS}).items()}


def edge_fields(item: EdgeItem) -> dict[str, object]:
    """The fields of an item, to be packed (`declared.pack`)."""
    name = _NAMES.get(type(item))
    return fields_of(item) if name is None else {name: item}


def encode_edge(item: EdgeItem, seq: int) -> bytes:
    """An item of a parent, in the long result of an `attach`."""
    return addressed(pack({"seq": 0, **edge_fields(item)}), seq)


def read_edge(fields: Fields) -> EdgeItem:
    """An item, from either end.

    Raises:
        DecodeError: it is none.
    """
    name = next((name for name in _READERS if name in fields), None)
    if name is None:
        raise DecodeError(f"an item of an edge has {', '.join(_READERS)}: one of these", "bad_item")
    found = _READERS[name].convert(fields[name] if name in _VALUES else fields)
    if isinstance(found, ParentOffer | ServerInfo) and len({*found.path}) < len(found.path):
        raise DecodeError("the field 'path' names a node twice", "bad_path")
    return found
