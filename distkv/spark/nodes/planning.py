"""Who has the content of what is new, and what nobody has.

Knows: where content can be (at its writer, at the hosts that were named, at other members), what becomes of ticks
without any, and how much one partition reads.  Does not know sockets, Spark, nor what an event holds.

A plan is made by asking: `plan` gives each question, and takes its answer. So it can be tried against a fleet that is
nothing but sets.

Invariant: each new tick is in one read, or of another path, or in a gap, or waited for; a tick that no host has
heard of is in none of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from distkv.client.changes import Located
from distkv.errors import PeerError
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, common, joined, without
from distkv.wire.fields import (
    HASH_BYTES,
    Fields,
    bad,
    read_address,
    read_list,
    read_map,
    read_node,
    read_ranges,
    read_time,
)

SURE_STATES: Final = ("ready", "cut-off")
"""In these a node has its own changes, and may make more."""
ALIVE: Final = "alive"
RETIRED: Final = "retired"


@attrs.frozen
class KnownNode:
    """A node of the network, as another one sees it."""

    node: NodeName
    addr: str
    state: str


@attrs.frozen
class View:
    """What a host said of itself and of the others."""

    addr: str
    """Where it was asked."""
    node: NodeName
    network: bytes
    held: TickRanges
    missing: TickRanges
    lost: TickRanges
    """The part of `missing` that nobody alive has."""
    members: tuple[KnownNode, ...] = ()
    digest: str = ""
    """Equal on nodes that show the same."""
    time_s: float | None = None
    """Its clock as it said this, in seconds since 1970: it holds all that it wrote up to then. None where it does not
    know that, since it is not ready."""


@attrs.frozen
class ContentQuestion:
    """Which of these ticks have their content at a host?"""

    addr: str
    ticks: TickRanges


@attrs.frozen
class Read:
    """Ticks of one writer whose content is at the first address; the others may have some of it."""

    node: NodeName
    ticks: Ranges
    addrs: tuple[str, ...]


@attrs.frozen
class Plan:
    """What to read."""

    network: bytes
    reads: tuple[Read, ...]
    """In order of node and tick."""
    gaps: TickRanges
    """No content is left: its writer says so, or is retired."""
    waiting: TickRanges
    """The content may be at a writer that does not answer now."""
    elsewhere: TickRanges
    """Their content is somewhere, and is not of the path that is read."""

    @property
    def ticks(self) -> TickRanges:
        """Those that are read."""
        found: TickRanges = {}
        for read in self.reads:
            found.setdefault(read.node, Ranges()).update(read.ticks)
        return found


Planning: TypeAlias = Generator[ContentQuestion, Located | None, Plan]
"""Gives questions, takes what was answered (None: the host does not answer), and returns the plan."""


def read_view(addr: str, state: Fields) -> View:
    """The answer to `get_state`.

    Raises:
        DecodeError: it is none.
    """
    members = [read_map(member, "members") for member in read_list(state.get("members"), "members")]
    return View(
        addr,
        read_node(state.get("node"), "node"),
        _network(state.get("network")),
        read_ranges(state.get("held"), "held"),
        read_ranges(state.get("missing"), "missing"),
        read_ranges(state.get("lost"), "lost"),
        tuple(
            KnownNode(read_node(member.get("node"), "members"), read_address(member), str(member.get("state")))
            for member in members
        ),
        str(state.get("digest")),
        read_time(state.get("time"), "time") if state.get("state") in SURE_STATES else None,
    )


def network_of(views: Sequence[View]) -> bytes:
    """The network to which all of them belong.

    Raises:
        PeerError: they belong to several.
    """
    first = views[0]
    for view in views:
        if view.network != first.network:
            raise PeerError(
                f"{view.addr} is of the network {view.network.hex()}, and {first.addr} of {first.network.hex()}: "
                "name hosts of one network"
            )
    return first.network


def held_by(views: Sequence[View]) -> TickRanges:
    """What one of them holds at least."""
    found: TickRanges = {}
    for view in views:
        found = joined(found, view.held)
    return found


def heard_by(views: Sequence[View]) -> TickRanges:
    """What one of them has heard of at least: what is held, and what all of them miss."""
    return joined(held_by(views), missing_at(views)[0])


def missing_at(views: Sequence[View]) -> tuple[TickRanges, TickRanges]:
    """What all that know of it miss, and which part of that nobody alive has."""
    held, missing, lost = held_by(views), dict[NodeName, Ranges](), dict[NodeName, Ranges]()
    for view in views:
        missing, lost = joined(missing, view.missing), joined(lost, view.lost)
    missing = without(missing, held)
    return missing, common(lost, missing)


def plan(views: Sequence[View], new: TickRanges, *, discover: bool = True) -> Planning:
    """Find the content of ticks that one of the hosts has heard of.

    First each writer is asked for its own ticks, since only the writer surely has all; for what it lacks, or when it
    does not answer, the named hosts in their order, then the other members, unless `discover` is False.
    """
    places = _Places(views, discover=discover)
    left, found, answered = dict(new), list[tuple[str, TickRanges]](), set[NodeName]()
    failed: set[str] = set()
    elsewhere: TickRanges = {}
    for writer in sorted(new):
        addr = places.by_node.get(writer)
        if addr is None:
            continue
        located = yield ContentQuestion(addr, {writer: new[writer]})
        if located is None:
            failed.add(addr)
            continue
        answered.add(writer)
        left, elsewhere = _take(addr, located, {writer: new[writer]}, found, left, elsewhere)
    for node, addr in places.in_order:
        wanted = {writer: ticks for writer, ticks in left.items() if writer != node}
        if not wanted or addr in failed:
            continue
        located = yield ContentQuestion(addr, wanted)
        if located is None:
            failed.add(addr)
            continue
        left, elsewhere = _take(addr, located, wanted, found, left, elsewhere)
    sure = answered | places.retired
    return Plan(
        network_of(views),
        tuple(sorted(_reads(found, places, failed), key=lambda read: (read.node, next(iter(read.ticks))))),
        {node: ticks for node, ticks in left.items() if node in sure},
        {node: ticks for node, ticks in left.items() if node not in sure},
        elsewhere,
    )


def chase(
    views: Sequence[View], lost: TickRanges, named: Sequence[str], *, discover: bool = True
) -> Iterator[Read]:
    """Reads of ticks whose content a plan did not find again: from every host that may have it when it is back, those
    that are away now included, and their writer first. `named` are the hosts that were named, whether they answer or
    not."""
    places = _Places(views, discover=discover)
    others = [*(addr for _, addr in places.in_order), *named, *(places.away[node] for node in sorted(places.away))]
    for writer in sorted(lost):
        first = places.by_node.get(writer, places.away.get(writer))
        yield Read(writer, lost[writer], tuple(dict.fromkeys([*([first] if first else []), *others])))


def cut(reads: Sequence[Read], count_max: int) -> Iterator[Read]:
    """Reads of so many ticks at the most; each is a stretch of the ticks as they are held."""
    for read in reads:
        for piece in _pieces(read.ticks, count_max):
            yield attrs.evolve(read, ticks=piece)


def first_of(ticks: TickRanges, count_max: int) -> TickRanges:
    """So many of the ticks at the most, of each node the lowest, and of all nodes about as many."""
    left = count_max
    found: TickRanges = {}
    by_size = sorted(ticks, key=lambda node: (len(ticks[node]), node))
    for at, node in enumerate(by_size):
        share = -(-left // (len(by_size) - at))
        some = next(_pieces(ticks[node], share), Ranges()) if share else Ranges()
        left -= len(some)
        if some:
            found[node] = some
    return found


# -- inside -------------------------------------------------------------------------------------------------------


class _Places:
    """Where nodes answer."""

    def __init__(self, views: Sequence[View], *, discover: bool) -> None:
        named = {view.node: view.addr for view in views}
        others: dict[NodeName, str] = {}
        self.away: dict[NodeName, str] = {}
        self.retired: set[NodeName] = set()
        for view in views:
            for member in view.members:
                if member.state == RETIRED:
                    self.retired.add(member.node)
                elif member.addr and discover and member.node not in named:
                    (others if member.state == ALIVE else self.away).setdefault(member.node, member.addr)
        self.by_node: Mapping[NodeName, str] = {**named, **others}
        self.in_order: Sequence[tuple[NodeName, str]] = [*named.items(), *sorted(others.items())]


def _take(
    addr: str,
    located: Located,
    wanted: TickRanges,
    found: list[tuple[str, TickRanges]],
    left: TickRanges,
    elsewhere: TickRanges,
) -> tuple[TickRanges, TickRanges]:
    """What an answer leaves to be asked, and what is known of other paths with it."""
    here = common(located.here, wanted)
    found.append((addr, here))
    others = without(without(wanted, located.absent), here)
    return without(without(left, here), others), joined(elsewhere, others)


def _reads(found: Sequence[tuple[str, TickRanges]], places: _Places, failed: set[str]) -> Iterator[Read]:
    for addr, here in found:
        for node, ticks in here.items():
            others = [places.by_node.get(node), *(other for _, other in places.in_order)]
            addrs = dict.fromkeys([addr, *(other for other in others if other is not None and other not in failed)])
            yield Read(node, ticks, tuple(addrs))


def _network(value: object) -> bytes:
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        found = b""
    if len(found) != HASH_BYTES:
        raise bad("network", f"{2 * HASH_BYTES} hex digits", value)
    return found


def _pieces(ticks: Ranges, count_max: int) -> Iterator[Ranges]:
    piece: list[tuple[int, int]] = []
    room = count_max
    for begin, end in ticks.pairs():
        while begin < end:
            taken = min(end, begin + room)
            piece.append((begin, taken))
            room -= taken - begin
            begin = taken
            if not room:
                yield Ranges(piece)
                piece, room = [], count_max
    if piece:
        yield Ranges(piece)
