"""What a picture of a trace shows: which moments, in which lanes, in which words, with which arrows.

Knows: how a part of a trace is chosen.  Does not know how anything is drawn (`mermaid`, `svg`, `page`).

Invariant: what a picture leaves out though it was asked for is said in `left_out`; what is filtered away never
makes a message look lost.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

import attrs

from distkv.errors import SettingsError
from distkv.graph.arrows import Arrow, arrows, running_before
from distkv.graph.text import TextWriter
from distkv.graph.trace import GONE, Moment, StepKind
from distkv.wire.gossip import GossipKind

LANES_MAX: Final = 256
"""Past this nobody could find a lane, and a page would be slow."""

STEPS: Final = frozenset({*StepKind, *GossipKind, *GONE})
OUTSIDE: Final = "outside"


@attrs.frozen
class Choice:
    """Which part of a trace is wanted. What is empty or None asks for nothing."""

    nodes: AbstractSet[str] = frozenset()
    kinds: AbstractSet[str] = frozenset()
    """Of the moments themselves, or of what they sent."""
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, moment: Moment) -> bool:
        """Whether it is wanted. What happened to all belongs to any nodes."""
        if self.nodes and moment.node and moment.node not in self.nodes:
            return False
        if self.kinds and self.kinds.isdisjoint(kinds_of(moment)):
            return False
        is_early = self.since_ms is not None and moment.at_ms < self.since_ms
        return not is_early and (self.until_ms is None or moment.at_ms <= self.until_ms)

    def check(self, seen: TraceContents) -> None:
        """Raises SettingsError when a node or a kind is wanted that the trace does not have."""
        for what, wanted, found in (("node", self.nodes, seen.lanes), ("kind", self.kinds, sorted(seen.kinds))):
            for name in sorted(wanted):
                if name not in found:
                    there = ", ".join(found) or "none at all"
                    raise SettingsError(f"there is no {what} {name!r} in the trace: there are {there}")


@attrs.define
class TraceContents:
    """What there was in a trace."""

    nodes: set[str] = attrs.field(factory=set)
    kinds: set[str] = attrs.field(factory=set)

    def note(self, moment: Moment) -> None:
        """One moment of it."""
        self.kinds.update(kinds_of(moment))
        self.nodes.update((moment.node, moment.heard.sender if moment.heard is not None else ""))

    @property
    def lanes(self) -> list[str]:
        """All nodes: who took steps, and whom they heard. n2 stands before n10."""
        return sorted(self.nodes - {""}, key=_natural)


View: TypeAlias = tuple[Moment | None, ...]
"""For each lane the latest moment that shows its node, be it in the picture or not; None: no process runs, or none was
seen yet."""


@attrs.frozen
class Picture:
    """A trace as it is to be drawn."""

    title: str
    lanes: tuple[str, ...]
    moments: tuple[Moment, ...]
    words: tuple[str, ...]
    """Of each moment."""
    arrows: tuple[Arrow, ...]
    """Their numbers are those of `moments`."""
    views: tuple[View, ...]
    """Of each moment, what every lane was after it."""
    left_out: str = ""
    """A sentence, when not all that was wanted is here."""


def compose(
    moments: Sequence[Moment], title: str, choice: Choice | None = None, moments_max: int = 5000, forgotten: int = 0
) -> Picture:
    """The picture of what is wanted of a trace, and of that the last `moments_max`: how it ends is what counts.

    `forgotten` moments before these are not known any more.

    Raises:
        SettingsError: the choice names what is not there, or there are more than `LANES_MAX` nodes.
    """
    choice, seen = choice or Choice(), TraceContents()
    for moment in moments:
        seen.note(moment)
    choice.check(seen)
    lanes = tuple(name for name in seen.lanes if not choice.nodes or name in choice.nodes)
    if len(lanes) > LANES_MAX:
        raise SettingsError(f"a picture shows {LANES_MAX} nodes, and there are {len(lanes)}: choose some with --nodes")
    wanted = [number for number, moment in enumerate(moments) if choice.takes(moment)]
    kept = wanted[-moments_max:]
    left_out = forgotten + len(wanted) - len(kept)
    numbers = {old: new for new, old in enumerate(kept)}
    shown = tuple(moments[number] for number in kept)
    writer = TextWriter()
    return Picture(
        title=title,
        lanes=lanes,
        moments=shown,
        words=tuple(writer.words(moment) for moment in shown),
        arrows=tuple(_kept(arrows(moments), moments, numbers, choice)),
        views=tuple(_views(moments, numbers, lanes)),
        left_out=f"{left_out} moments before these are left out." if left_out else "",
    )


def kinds_of(moment: Moment) -> list[str]:
    """Its own kind, then those of what it sent. What was done to a node or the network is of one kind."""
    own = str(moment.kind) if moment.kind in STEPS else OUTSIDE
    return [own, *(said.kind for said in moment.sent)]


# -- inside -------------------------------------------------------------------------------------------------------


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _views(moments: Sequence[Moment], numbers: Container[int], lanes: Sequence[str]) -> Iterator[View]:
    """One for each moment that is shown."""
    place = {name: lane for lane, name in enumerate(lanes)}
    unknown = {node: Moment(0, node, OUTSIDE, state="unknown") for node in running_before(moments)}
    view: View = tuple(map(unknown.get, lanes))
    for number, moment in enumerate(moments):
        lane = place.get(moment.node)
        if lane is not None and (moment.state or moment.kind in GONE):
            view = (*view[:lane], moment if moment.state else None, *view[lane + 1 :])
        if number in numbers:
            yield view


def _kept(
    found: Iterable[Arrow], moments: Sequence[Moment], numbers: Mapping[int, int], choice: Choice
) -> Iterator[Arrow]:
    """The arrows of which an end and both lanes are shown; an end that is not goes straight across."""
    for arrow in found:
        start = None if arrow.start is None else numbers.get(arrow.start)
        end = None if arrow.end is None else numbers.get(arrow.end)
        kinds = {arrow.said.kind, *([] if arrow.end is None else kinds_of(moments[arrow.end])[:1])}
        is_off = choice.nodes and not {arrow.source, arrow.target} - {""} <= choice.nodes
        if is_off or (choice.kinds and choice.kinds.isdisjoint(kinds)) or (start is None and end is None):
            continue
        yield attrs.evolve(arrow, start=start, end=end)
