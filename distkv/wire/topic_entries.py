"""The entries of topics in the store: who keeps a topic, and which nodes keep topics at all.

Knows: their keys, and the form of their values.  Does not know what follows from several versions of one (`entries`).

For example, `:n.service.topics.topic.orders` is `{ids: [4f...], owner: [a, 3], followers: [[b, 9]], lacks: []}`: node
`a` owns the topic in its life 3, and `b` follows it. A topic that was dropped is `{dropped: [4f...]}` until all nodes
have thrown it away.

Invariant: as in `declared`; lists are written in one order, so equal entries are equal bytes.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from distkv.errors import BadValueError
from distkv.model.event import LIFE_MAX, NodeName
from distkv.model.service_paths import entry_key, key_names
from distkv.wire.declared import BodyReader, Bounds, Declared, Node, pack
from distkv.wire.topic_fields import COUNTER_MAX, is_name

TOPIC: Final = "topic"
SERVER: Final = "server"
IDS_MAX: Final = 1000
"""Of one topic: so many that were created apart can become one."""
FOLLOWERS_MAX: Final = 64
GROUPS_MAX: Final = 100
"""So many groups of nodes may hold what an owner lacks."""

Life: TypeAlias = Annotated[int, Bounds(ge=0, le=LIFE_MAX)]
TopicId: TypeAlias = Annotated[str, Bounds(pattern=r"\A[0-9a-f]{16}\Z")]
Ids: TypeAlias = Annotated[tuple[TopicId, ...], Bounds(max_length=IDS_MAX)]


class Holder(Declared, array_like=True, order=True):
    """A node that keeps a topic. When it has another life, it lost its disk, or that is an old one."""

    node: Node
    life: Life


Naming: TypeAlias = Annotated[int, Bounds(ge=0, le=COUNTER_MAX)]
AS_OWNER: Final = 0
"""In the place of a number by which a follower is named."""


class HolderInGroup(Declared, array_like=True, order=True):
    """A holder in a group, and as what: it may hold other copies of the topic by other namings."""

    node: Node
    life: Life
    naming: Naming
    """By which the owner of the group had named it as a follower; or `AS_OWNER`."""

    @property
    def holder(self) -> Holder:
        return Holder(self.node, self.life)


Group: TypeAlias = Annotated[tuple[HolderInGroup, ...], Bounds(min_length=1, max_length=FOLLOWERS_MAX + 1)]


class TopicEntry(Declared, omit_defaults=True):
    """What is known of a topic."""

    ids: Ids = ()
    """Of all topics that became this one."""
    owner: Holder | None = None
    """None: the topic is dropped."""
    followers: Annotated[tuple[Holder, ...], Bounds(max_length=FOLLOWERS_MAX)] = ()
    """In the order in which they take over."""
    namings: Annotated[tuple[Naming, ...], Bounds(max_length=FOLLOWERS_MAX)] = ()
    """Of each follower, drawn when it is named: who is named again has another one, and is to compare its copy anew."""
    lacks: Annotated[tuple[Group, ...], Bounds(max_length=GROUPS_MAX)] = ()
    """The owner may lack something that all of a group had: until it has joined one of each group."""
    min_replicas: Annotated[int, Bounds(ge=1, le=FOLLOWERS_MAX)] = 1
    keep_s: Annotated[float, Bounds(ge=0, le=1e12)] = 0.0
    """0: no limit."""
    keep_bytes: Annotated[int, Bounds(ge=0, le=COUNTER_MAX)] = 0
    """0: no limit."""
    lost: bool = False
    """Whether it began anew because all copies of an earlier topic of this name were lost."""
    dropped: Ids = ()
    """Of topics of this name that were dropped, as long as somebody may have a copy of them."""

    def __post_init__(self) -> None:
        if (self.owner is None) != (not self.ids):
            raise ValueError("a topic has ids and an owner, or neither")
        if len(self.namings) != len(self.followers):
            raise ValueError("each follower has the number of its naming")
        if not self.ids and not self.dropped:
            raise ValueError("an entry names a topic, or what was dropped")

    @property
    def group(self) -> tuple[HolderInGroup, ...]:
        """All that keep it: the owner, then the followers."""
        if self.owner is None:
            return ()
        named = zip(self.followers, self.namings, strict=True)
        return as_owner(self.owner), *(HolderInGroup(one.node, one.life, number) for one, number in named)

    def packed(self) -> bytes:
        """The value of the entry; `read_entry` reads it."""
        return pack(self)


class ServerEntry(Declared):
    """A node that keeps topics, or did."""

    life: Life


_ENTRIES: Final = BodyReader[TopicEntry](TopicEntry, "entry")
_SERVERS: Final = BodyReader[ServerEntry](ServerEntry, "server")


def read_entry(value: bytes) -> TopicEntry:
    """What the value of an entry says.

    Raises:
        DecodeError: it is none.
    """
    return _ENTRIES.read(value)


def read_server(value: bytes) -> int:
    """The life in which a node keeps topics.

    Raises:
        DecodeError: it is no such value.
    """
    return _SERVERS.read(value).life


def as_owner(holder: Holder) -> HolderInGroup:
    """The owner of a group."""
    return HolderInGroup(holder.node, holder.life, AS_OWNER)


def topic_key(name: str) -> str:
    """The key of the entry of a topic."""
    return entry_key(TOPIC, name)


def server_key(node: NodeName) -> str:
    """The key of the entry of a server."""
    return entry_key(SERVER, node)


def topic_of(key: str) -> str | None:
    """The topic of which this is the key; None: of none."""
    name = _second(key, TOPIC)
    return name if name is not None and is_name(name) else None


def is_server_key(key: str) -> bool:
    """Whether it is that of a server."""
    return _second(key, SERVER) is not None


def _second(key: str, first: str) -> str | None:
    try:
        names = key_names(key)
    except BadValueError:
        return None
    return names[1] if len(names) == 2 and names[0] == first else None
