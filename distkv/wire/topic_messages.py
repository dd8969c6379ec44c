"""What nodes that keep topics ask each other for the copies of them: batches of rows, leases, and what differs.

Knows: the forms of that.  Does not know what a row means, nor who keeps a topic.

Invariant: as in `declared`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from distkv.model.event import TICK_MAX
from distkv.wire.declared import BodyReader, Bounds, Declared

NAMES_MAX: Final = 1000
"""A message names no more topics than these."""
IDS_MAX: Final = 1000
"""Of one topic: so many that were created apart can become one."""
BUCKETS: Final = 256
"""Into so many parts the rows of a topic are put by the hash of their keys, to be compared part by part."""
HAD_MAX: Final = 9
"""So many namings a node tells of: the last ones."""
ROWS_MAX: Final = 1 << 16
"""Of a message."""
TEXT_MAX: Final = 1000

TopicText: TypeAlias = Annotated[str, Bounds(min_length=1, max_length=255)]
TopicTexts: TypeAlias = Annotated[tuple[TopicText, ...], Bounds(max_length=NAMES_MAX)]
TopicIds: TypeAlias = Annotated[
    tuple[Annotated[str, Bounds(pattern=r"\A[0-9a-f]{16}\Z")], ...], Bounds(min_length=1, max_length=IDS_MAX)
]
RowKey: TypeAlias = Annotated[str, Bounds(max_length=1024)]
"""Empty: behind no row, so from the first on."""
RowValue: TypeAlias = Annotated[bytes, Bounds(max_length=1 << 20)]
Digest: TypeAlias = Annotated[bytes, Bounds(max_length=32)]
Bucket: TypeAlias = Annotated[int, Bounds(ge=0, lt=BUCKETS)]
Start: TypeAlias = Annotated[int, Bounds(ge=0, le=TICK_MAX)]
"""Which start of its service a node is in; another start has another number."""


NamingNumber: TypeAlias = Annotated[int, Bounds(ge=0, le=TICK_MAX)]


class CopiedRow(Declared, array_like=True):
    """A row of a topic."""

    key: RowKey
    value: RowValue | None
    """None: there is no such row any more."""


CopiedRows: TypeAlias = Annotated[tuple[CopiedRow, ...], Bounds(max_length=ROWS_MAX)]


class CopiedTopic(Declared, array_like=True):
    """Rows of one topic."""

    name: TopicText
    ids: TopicIds
    rows: CopiedRows


class CopyBatch(Declared, array_like=True, tag=11):
    """Rows that the asked node is to keep a copy of, in the order in which they came to be."""

    topics: Annotated[tuple[CopiedTopic, ...], Bounds(max_length=ROWS_MAX)]


class LeaseAsked(Declared, array_like=True, tag=12):
    """For a while the asked node is not to take over a topic from the one that asks."""

    known: TopicTexts = ()
    """What the asked node said to have taken, and the asking one has seen in the store."""
    taken: TopicTexts = ()
    """What the asking one has taken from the asked."""


class LeaseProbe(Declared, array_like=True, tag=13):
    """Whether the asked node works."""


class Compare(Declared, array_like=True, tag=14):
    """Whether the copy of the asking node is equal to that of the owner."""

    name: TopicText
    ids: TopicIds
    digest: Digest
    run: Start
    """Which of all comparisons of that node this is."""
    had: Annotated[tuple[NamingNumber, ...], Bounds(max_length=HAD_MAX)] = ()
    """By which namings the asking one had every operation that was answered; 0: as the owner."""
    is_last: bool = False
    """Whether all that differed was exchanged."""
    naming: NamingNumber | None = None
    """By which number the entry names the asking one as a follower, as far as it sees; None: it does not."""
    is_refused: bool = False
    """Whether it could not take what the owner sent it in the last comparison."""


class Exchange(Declared, array_like=True, tag=15):
    """Rows of one part of the asking node's copy; the owner's are to be said."""

    name: TopicText
    ids: TopicIds
    bucket: Bucket
    rows: CopiedRows
    after: RowKey | None
    """The owner's behind this one are wanted; None: none of them."""


class CompareWanted(Declared, array_like=True, tag=16):
    """The asked node lacks something of these topics: it is to compare them."""

    names: TopicTexts


class Copied(Declared, array_like=True, tag=1):
    """The batch is on the disk."""

    refused: TopicTexts = ()
    """Of these topics it is not: there is no room for them."""
    dropped: TopicTexts = ()
    """Nor of these: they were dropped, as the store will show."""


class LeaseGiven(Declared, array_like=True, tag=2):
    """The promise."""

    taken: TopicTexts = ()
    """What was taken over from the asking node before, and it may not know."""
    more: bool = False
    """Whether that is not all."""
    known: TopicTexts = ()
    """As in the question, the other way round."""


class CompareEqual(Declared, array_like=True, tag=3):
    """The two copies are equal, or this was heard and there is nothing to say."""

    start: Start


class CompareDiffers(Declared, array_like=True, tag=4):
    """They are not."""

    start: Start
    digests: Annotated[tuple[Digest, ...], Bounds(min_length=BUCKETS, max_length=BUCKETS)]
    """Those of all parts, in order."""


class Exchanged(Declared, array_like=True, tag=5):
    """What the asking node sent is with the owner and its followers, on their disks."""

    start: Start
    rows: CopiedRows
    """The owner's."""
    more: bool = False
    """Whether there are further ones, behind the last."""


class NotCompared(Declared, array_like=True, tag=6):
    """The asked node is not the owner of this topic, or cannot keep what was sent."""

    why: Annotated[str, Bounds(max_length=TEXT_MAX)]


CopyQuestion: TypeAlias = CopyBatch | LeaseAsked | LeaseProbe | Compare | Exchange | CompareWanted
CompareReply: TypeAlias = CompareEqual | CompareDiffers | Exchanged | NotCompared

COPY_REPLIES: Final = BodyReader[Copied](Copied, "answer")
LEASE_REPLIES: Final = BodyReader[LeaseGiven](LeaseGiven, "answer")
COMPARE_REPLIES: Final = BodyReader[CompareReply](CompareReply, "answer")
