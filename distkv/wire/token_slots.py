"""What a token server keeps on its disk: a slot for each token, and one for how far it serves.

Knows: the form of these.  Does not know who writes them, nor when they are durable.

Invariant: as in `declared`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeAlias

from distkv.wire.declared import BodyReader, Bounds, Declared, Node, field
from distkv.wire.held_tokens import (
    FenceNumber,
    PackedData,
    SessionName,
    TokenHolder,
    TokenName,
    check_tokens,
)
from distkv.wire.token_fields import Ticket

HANDED_MS_MAX: Final = 2**40
PARTS_MAX: Final = 1 << 20
"""Far more than fit into a slot, or a part of a hand-over: what was kept once is read."""

TokenHolders: TypeAlias = Annotated[tuple[TokenHolder, ...], Bounds(max_length=PARTS_MAX)]
Nodes: TypeAlias = Annotated[frozenset[Node], Bounds(max_length=PARTS_MAX)]


class QueuedSession(Declared, array_like=True):
    """A place in the queue of a token."""

    session: SessionName
    epoch: FenceNumber
    number: FenceNumber
    is_shared: bool

    @property
    def ticket(self) -> Ticket:
        return self.epoch, self.number


class TokenRecord(Declared, array_like=True):
    """A token, as a slot holds it, or as one server hands it over to another."""

    token: TokenName
    holders: TokenHolders
    data: PackedData | None
    queue: Annotated[tuple[QueuedSession, ...], Bounds(max_length=PARTS_MAX)] = ()
    """Only in a hand-over."""
    free_in_ms: Annotated[int, Bounds(ge=0, le=HANDED_MS_MAX)] = 0
    """Only in a hand-over: how long nobody may get it."""
    lost: TokenHolders = ()
    """From whom it was taken, and who may not know yet."""
    keeps_data: bool = False
    """Whether the data stays when nobody holds the token."""

    def __post_init__(self) -> None:
        check_tokens(self.token)


class GainedPart(Declared, array_like=True):
    """Tokens that came to this server by a change of servers: what is its own now, and was not before."""

    version: FenceNumber
    before: Nodes
    """Who was not down before."""
    after: Nodes
    giver: Node | None = None
    """Who hands them over, because it leaves; None: the sessions are asked."""


class ServedPart(Declared):
    """How far a server is with its part."""

    version: FenceNumber
    """The newest version of the common state that it acted on."""
    up: Annotated[Mapping[Node, FenceNumber], Bounds(max_length=PARTS_MAX)]
    """Who was not down in it, and since which version."""
    epoch: FenceNumber
    ceiling: FenceNumber
    """Counters up to this one may have been given."""
    gains: Annotated[tuple[GainedPart, ...], Bounds(max_length=PARTS_MAX)] = ()
    """Those of which not all sessions have said yet what they hold."""
    boot: FenceNumber = 0
    """The version in which it began to boot; 0: it does not."""
    handed: Annotated[tuple[Node, ...], Bounds(max_length=PARTS_MAX)] = ()
    """Who has handed over all since then."""
    is_whole: bool = field(name="whole", default=True)
    """Whether nothing was missing in what they handed over."""
    giving: Annotated[Mapping[Node, tuple[FenceNumber, bool, bool]], Bounds(max_length=PARTS_MAX)] = field(
        default_factory=dict
    )
    """To which booting server this one hands over: its boot, whether all of its part is known here, whether it is
    done."""


decode_token: Final[Callable[[bytes], TokenRecord]] = BodyReader[TokenRecord](TokenRecord, "record").read
decode_part: Final[Callable[[bytes], ServedPart]] = BodyReader[ServedPart](ServedPart, "part").read
