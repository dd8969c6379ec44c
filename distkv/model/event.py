"""Events and chains: one change of one path, who made it, and which earlier changes it knew.

Knows: ticks with their lives, the total order of events, containment between two events, the next chain of a write.
Does not know: which events a node has (ledger), nor which of them win (entry).

Invariant: an event never changes, and `order` is total: for any two different events on a path exactly one is above
the other, on every node alike (docs/protocol, ORDER-1 to ORDER-4, FENCE-1).
"""

from __future__ import annotations

import re
from enum import IntEnum
from itertools import chain, groupby, repeat
from operator import attrgetter, eq, ne
from typing import Final, NewType, TypeAlias

from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path
from distkv.naming import is_node_name

NodeName = NewType("NodeName", str)
Tick = NewType("Tick", int)
"""63 bits: the upper 31 are the life of the writer's directory, the lower 32 count its changes from 1."""
Tock = NewType("Tock", int)
"""The Lamport clock of the network."""
Link: TypeAlias = tuple[NodeName, Tick]
"""(node, tick): names one event, for ever."""
Chain: TypeAlias = tuple[Link, ...]
"""Newest first; a (node, life) appears once."""
Writer: TypeAlias = tuple[NodeName, int]
"""(node, life): the lives of one name are different writers."""

COUNT_BITS: Final = 32
TICK_MAX: Final = 2**63 - 1
TOCK_HEARD_MAX: Final = 2**62 - 1
"""What others may claim; the other half is left to our own clock, so that nobody's word can use it up."""
LIFE_MAX: Final = 2**31 - 1


class Kind(IntEnum):
    """What an event does to its path."""

    SET = 0
    DELETE = 1
    EXPIRE = 2


def life_of(tick: int) -> int:
    """The life in which a tick was made."""
    return tick >> COUNT_BITS


def first_tick(life: int) -> Tick:
    """The tick of the first change of a life."""
    return Tick((life << COUNT_BITS) + 1)


def last_tick(life: int) -> Tick:
    """The highest tick that there can be in a life."""
    return Tick(first_tick(life + 1) - 2)


def tick_text(node: str, tick: int) -> str:
    """A change as text, `node:life.n`; life 0 is left out. `tick` holds both numbers, as in the links of a chain."""
    life, count = tick >> COUNT_BITS, tick & (2**COUNT_BITS - 1)
    return f"{node}:{life}.{count}" if life else f"{node}:{count}"


_TICK_TEXT: Final = re.compile(r"(.+):(?:([0-9]{1,10})\.)?([0-9]{1,19})")


def read_tick_text(text: str) -> Link | None:
    """What `tick_text` wrote, or NODE:TICK with the whole tick as one integer; None when it is neither."""
    parts = _TICK_TEXT.fullmatch(text)
    if parts is None or not is_node_name(parts[1]):
        return None
    life, count = int(parts[2] or 0), int(parts[3])
    # Without a life, the number may be the whole tick, the life included.
    is_count = 0 < count < 1 << COUNT_BITS and life <= LIFE_MAX
    is_tick = not parts[2] and count <= TICK_MAX and count % (1 << COUNT_BITS) > 0
    return (NodeName(parts[1]), Tick((life << COUNT_BITS) + count)) if is_count or is_tick else None


class _TruncatedChain(tuple[Link, ...]):
    """Links behind which others were cut off."""

    __slots__ = ()


class Event:
    """One change. Equality is identity: two objects with one `link` may differ only by a fault, see `same`.

    Nothing of it is assigned again. There may be a million, nearly all of which know no other event, so the head of the
    chain is kept as two plain attributes: as a chain of one link it would take 112 bytes more. An attribute more than
    these eight would take 16.
    """

    __slots__ = ("kind", "node", "older", "path", "tick", "time", "tock", "value")

    ttl: float | None = None
    """After so many seconds the value goes by itself; None: it does not. Few have one: those are `ExpiringEvent`."""
    fence: Fence = NO_FENCE
    """Orders it before the tock does. Few have one: those are `FencedEvent`."""

    def __init__(
        self, path: Path, kind: Kind, value: bytes, chain: Chain, tock: Tock, time: float, truncated: bool = False
    ) -> None:
        link = chain[0]
        self.path: Final = path
        self.kind: Final = kind
        self.value: Final = value
        """msgpack bytes exactly as every node stores them; empty unless `kind` is SET."""
        self.node: Final = link[0]
        self.tick: Final = link[1]
        self.older: Final[Chain] = _TruncatedChain(chain[1:]) if truncated else chain[1:]
        """The links of the chain behind its own."""
        self.tock: Final = tock
        self.time: Final = time
        """The writer's wall clock in seconds since 1970: for people, never for ordering."""

    def __repr__(self) -> str:
        ttl = "" if self.ttl is None else f" ttl={self.ttl}"
        fence = "" if self.fence is NO_FENCE else f" fence={self.fence.base}/{self.fence}"
        tick = tick_text(self.node, self.tick)
        return f"<{self.kind.name} {self.path} {tick} tock={self.tock}{ttl}{fence} {self.value[:40]!r}>"

    @property
    def chain(self) -> Chain:
        return ((self.node, self.tick), *self.older)

    @property
    def truncated(self) -> bool:
        """Whether the chain was cut at its end, so that older links may have existed."""
        return type(self.older) is _TruncatedChain

    @property
    def link(self) -> Link:
        return self.node, self.tick

    @property
    def writer(self) -> Writer:
        return self.node, self.tick >> COUNT_BITS


class ExpiringEvent(Event):
    """A value that goes by itself."""

    __slots__ = ("ttl",)

    def __init__(
        self, path: Path, value: bytes, chain: Chain, tock: Tock, time: float, truncated: bool, ttl: float
    ) -> None:
        super().__init__(path, Kind.SET, value, chain, tock, time, truncated)
        self.ttl: float = ttl


class FencedEvent(Event):
    """A change at a path that a token holds, or once held; of any kind, and with a ttl or without."""

    __slots__ = ("fence", "ttl")

    def __init__(
        self,
        path: Path,
        kind: Kind,
        value: bytes,
        chain: Chain,
        tock: Tock,
        time: float,
        truncated: bool,
        ttl: float | None,
        fence: Fence,
    ) -> None:
        super().__init__(path, kind, value, chain, tock, time, truncated)
        self.ttl: float | None = ttl
        self.fence: Fence = fence


def new_event(
    path: Path,
    kind: Kind,
    value: bytes,
    chain: Chain,
    tock: Tock,
    time: float,
    truncated: bool = False,
    ttl: float | None = None,
    fence: Fence = NO_FENCE,
) -> Event:
    """An event of whatever class has room for what it has; only a value (`SET`) may have a ttl."""
    if fence != NO_FENCE:
        return FencedEvent(path, kind, value, chain, tock, time, truncated, ttl, fence)
    if ttl is not None:
        return ExpiringEvent(path, value, chain, tock, time, truncated, ttl)
    return Event(path, kind, value, chain, tock, time, truncated)


def value_hash(event: Event) -> bytes:
    """Decides between two contents of one tick; the kind is part of it."""
    from hashlib import blake2b  # loads OpenSSL, which a client, that needs no hash, would wait for

    return blake2b(bytes([event.kind]) + event.value, digest_size=16).digest()


Order: TypeAlias = tuple[Fence, int, bool, int, tuple[int, ...], bytes]

_tock: Final = attrgetter("tock")
_fence: Final = attrgetter("fence")


def order(event: Event) -> Order:
    """The sort key of the total order: fence, tock, not an expiry, tick, the alphabetically lower node, value hash.

    The fence comes first for all events, and not only between two of one token: that would be no order, because an
    event without a fence could stand between two with one (docs/protocol, FENCE-1).

    `is_above`, `sort_down` and `is_within` give the same answer without building keys, which is dear; this form is for
    what is stored.
    """
    name = (*(255 - b for b in event.node.encode()), 256)  # a lower name, and a prefix of a name, sorts above
    return (event.fence, event.tock, event.kind is not Kind.EXPIRE, event.tick, name, value_hash(event))


def sort_down(events: list[Event]) -> None:
    """Put the highest first. Nearly always the tocks differ and decide; only among equal ones it needs `order`."""
    if any(map(ne, map(_fence, events), repeat(NO_FENCE))):
        events.sort(key=order, reverse=True)
        return
    events.sort(key=_tock, reverse=True)
    if any(map(eq, map(_tock, events), map(_tock, events[1:]))):
        equals = [list(run) for _, run in groupby(events, _tock)]
        for run in equals:
            if len(run) > 1:
                run.sort(key=order, reverse=True)
        events[:] = chain.from_iterable(equals)


def is_above(a: Event, b: Event) -> bool:
    """Whether `a` orders above `b`. Nearly always there is no fence, and the tocks differ and decide."""
    if a.fence is not b.fence and a.fence != b.fence:
        return a.fence > b.fence
    if a.tock != b.tock:
        return a.tock > b.tock
    return order(a) > order(b)


def is_within(at: Order, event: Event) -> bool:
    """Whether an order is that of the event, or below it."""
    if at[0] != event.fence:
        return at[0] < event.fence
    return at[1] < event.tock or (at[1] == event.tock and at <= order(event))


def contains(a: Event, b: Event) -> bool:
    """Whether `a` knew `b`: it orders above, and its chain names b's writer at b's tick or later."""
    if not is_above(a, b):
        return False
    node, tick = b.node, b.tick
    life = tick >> COUNT_BITS
    for other, known in a.chain:  # noqa: SIM110  # any() over a generator takes three times as long
        if other == node and known >= tick and known >> COUNT_BITS == life:
            return True
    return False


def same(a: Event, b: Event) -> bool:
    """Whether two events are the same change with the same content."""
    return a is b or (
        a.tick == b.tick
        and a.node == b.node
        and a.tock == b.tock
        and a.kind is b.kind
        and a.value == b.value
        and a.ttl == b.ttl
        and a.fence == b.fence
        and a.path == b.path
    )


def next_chain(me: Link, sources: list[Event], length_max: int) -> tuple[Chain, bool]:
    """The chain of a write by `me` that replaces or closes `sources` (the winner first), and whether it was cut.

    The heads of all sources come first and are never cut, because what a write closes must stay named (docs/protocol,
    CHAIN-3); then their older links, newest source first, as far as `length_max` allows.
    """
    own = (me[0], life_of(me[1]))
    if not sources:
        return (me,), False
    if len(sources) == 1 and not sources[0].older and sources[0].writer == own:
        return (me,), sources[0].truncated  # one's own earlier change, which knew no other writer
    links: dict[Writer, Tick] = {}
    rest = [link for source in sources for link in source.older]
    for node, tick in [source.link for source in sources] + rest:
        writer = (node, tick >> COUNT_BITS)
        if writer != own and links.get(writer, -1) < tick:
            links[writer] = tick
    room = max(length_max - 1, len(sources))
    kept = [(node, tick) for (node, _), tick in links.items()]
    cut = len(kept) > room or any(source.truncated for source in sources)
    return (me, *kept[:room]), cut
