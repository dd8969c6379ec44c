"""What became of each acknowledged write, and what each watcher was told, judged by what the disks hold.

Knows: every change that was ever on a disk, which of them burned with one, and who knew whom: a reference that forgets
nothing, beside the bounded chains of the product; its rule is that of `distkv.sim.rules.writes`.  Does not know
processes.

A path keeps so many open losers and no more (docs/protocol, OPEN-3). Whether a write was cut off for that is found by
repeating what each disk saw of its path, in its order: `CROWDED`. What a disk was told as superseded, without an event,
is not known there, so this may excuse a little too much on paths with that many losers. A write that a surviving disk
had, and of which only changes knew that burned, is told apart as `HEARSAY` (KEEP-2).

Invariant: what is `LOST` was on a surviving disk after every disk that burned, and no change that is there, or is
known to one that is, knew it; nor was it cut off.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from distkv.model.entry import LOSERS_MAX
from distkv.model.event import Event, Link, Writer, contains, sort_down, tick_text
from distkv.model.path import Path
from tests.process.disks import Disk
from tests.process.writers import Acknowledged

TOLD_MAX: Final = 40
"""So many rows of a disk are shown of a path."""


class Fate(enum.Enum):
    """What became of a write."""

    HERE = "winner or open loser"
    KNOWN = "known to what replaced it"
    CROWDED = "its path had more open losers than it keeps"
    BURNED = "on no surviving disk"
    HEARSAY = "what replaced it burned"
    LOST = "lost"


@attrs.frozen
class Fire:
    """A disk that burned, and what the others held at that moment."""

    at: float
    """By the monotonic clock."""
    burned: Disk
    left: Sequence[Disk]

    @property
    def gone(self) -> set[Link]:
        """What was on no other disk."""
        return {row.event.link for row in self.burned.rows}.difference(*(disk.links for disk in self.left))


class Past:
    """All that ever was on a disk."""

    def __init__(self, fires: Sequence[Fire], disks: Sequence[Disk], writes: Iterable[Acknowledged]) -> None:
        self.disks: Final[list[Disk]] = [*(fire.burned for fire in fires), *disks]
        """Each that burned, and the last ones."""
        self.fires: Final = fires
        self.gone_at: Final[dict[Link, int]] = {}
        """The first fire after which a change was on no disk."""
        self.events: Final[dict[Path, dict[Link, Event]]] = {}
        self._all: Final = [*self.disks, *(disk for fire in fires for disk in fire.left)]
        self._crowded: Final[dict[Path, set[Link]]] = {}
        for write in writes:
            if not write.is_decision:
                self._see(write.event)
        for disk in self._all:
            for row in disk.rows:
                self._see(row.event)
        for number, fire in enumerate(fires):
            for link in fire.gone:
                self.gone_at.setdefault(link, number)

    def crowded_out(self, path: Path) -> set[Link]:
        """The changes of a path that some disk had no room for among its open losers."""
        if path not in self._crowded:
            self._crowded[path] = set().union(*(_crowded_out(disk, path) for disk in self._all))
        return self._crowded[path]

    def _see(self, event: Event) -> None:
        self.events.setdefault(event.path, {}).setdefault(event.link, event)


def fates(past: Past, writes: Iterable[Acknowledged], here: Iterable[Event]) -> Iterator[tuple[Acknowledged, Fate]]:
    """What became of each write. `here`: the winners and open losers that all nodes hold."""
    at: dict[Path, set[Link]] = {}
    for event in here:
        at.setdefault(event.path, set()).add(event.link)
    kept: dict[Path, set[Link]] = {}
    for write in writes:
        path = write.event.path
        if path not in kept:
            kept[path] = _kept(list(past.events.get(path, {}).values()), at.get(path, set()))
        yield write, _fate(past, write, at.get(path, set()), kept[path])


def _fate(past: Past, write: Acknowledged, here: set[Link], kept: set[Link]) -> Fate:
    link, event = write.link, write.event
    if link in here:
        return Fate.HERE
    if link in kept:
        return Fate.KNOWN
    if link in past.gone_at:
        return Fate.BURNED
    if link in past.crowded_out(event.path):
        return Fate.CROWDED
    above = (other for other in past.events.get(event.path, {}).values() if contains(other, event))
    if any(other.link in past.gone_at and other.link not in kept for other in above):
        return Fate.HEARSAY
    return Fate.LOST


def _kept(events: list[Event], here: set[Link]) -> set[Link]:
    """Which events are here, or known to one that is kept; who knows an event is above it."""
    sort_down(events)
    kept = set(here)
    known: dict[Writer, int] = {}
    for event in events:
        if event.link in here or event.tick <= known.get(event.writer, -1):
            kept.add(event.link)
            for node, tick in event.chain:
                writer = (node, tick >> 32)
                known[writer] = max(tick, known.get(writer, -1))
    return kept


def _crowded_out(disk: Disk, path: Path) -> Iterator[Link]:
    """Repeats what a disk saw of a path, before and after a download voided it."""
    rows = disk.at(path)
    for some in ([row for row in rows if row.lsn < disk.begin], [row for row in rows if row.lsn >= disk.begin]):
        seen: list[Event] = []
        opened: list[Event] = []  # the winner and the open losers, the highest first
        for row in some:
            event = row.event
            if not any(contains(other, event) for other in seen):
                opened = [other for other in opened if not contains(event, other)] + [event]
                sort_down(opened)
            seen.append(event)
            while len(opened) > 1 + LOSERS_MAX:
                yield opened.pop().link


# -- what is promised besides -------------------------------------------------------------------------------------


def not_durable(past: Past, writes: Iterable[Acknowledged]) -> list[Acknowledged]:
    """Writes that are on no disk of the node that acknowledged them."""
    had: dict[str, set[Link]] = {}
    for disk in past.disks:
        had.setdefault(disk.name, set()).update(row.event.link for row in disk.rows)
    return [write for write in writes if write.link not in had.get(write.link[0], set())]


def not_as_written(past: Past, writes: Iterable[Acknowledged]) -> list[Acknowledged]:
    """Writes whose tick stands for something else, on a disk or among them."""
    writes = list(writes)
    count = Counter(write.link for write in writes)
    seen = {row.event.link: row.event for disk in past.disks for row in disk.rows}
    return [
        write
        for write in writes
        if count[write.link] > 1 or not _is_as_written(write, seen.get(write.link, write.event))
    ]


def _is_as_written(write: Acknowledged, seen: Event) -> bool:
    is_same = (write.event.path, write.event.chain, write.event.tock) == (seen.path, seen.chain, seen.tock)
    return is_same and (write.is_decision or (write.event.kind, write.event.value) == (seen.kind, seen.value))


def not_replicated(past: Past, writes: Iterable[Acknowledged]) -> list[Acknowledged]:
    """Writes that were promised to be on two nodes, and were gone, unknown to all, with the first disk that burned."""
    found = []
    for write in writes:
        number = next((n for n, fire in enumerate(past.fires) if fire.at > write.at), None)
        if write.replicas < 2 or number is None or past.gone_at.get(write.link) != number:
            continue
        left = set().union(*(disk.links for disk in past.fires[number].left))
        others = past.events[write.event.path]
        if not any(link in left and contains(other, write.event) for link, other in others.items()):
            found.append(write)
    return found


# -- for people ---------------------------------------------------------------------------------------------------


def life_story(past: Past, write: Acknowledged, here: Mapping[Link, Event]) -> str:
    """Which write it is, who knew it, and what each disk saw of its path around it."""
    event = write.event
    lines = [f"{event!r}, acknowledged to {write.by}, chain {_chain(event)}, {write.replicas} replicas"]
    above = sorted(
        (other for other in past.events.get(event.path, {}).values() if contains(other, event)),
        key=lambda other: other.tock,
    )
    for other in above[:5]:
        fate = "is here" if other.link in here else f"burned in fire {past.gone_at.get(other.link, 'none')}"
        lines.append(f"  known to {other!r}, chain {_chain(other)}: {fate}")
    lines += ["  known to nothing that any disk had"] if not above else []
    at = [other for other in here.values() if other.path == event.path]
    lines += [f"  there now: {other!r}, chain {_chain(other)}" for other in at[:5]]
    for number, disk in enumerate(past.disks):
        what = f"burned in fire {number}" if number < len(past.fires) else "at the end"
        lines.append(f"  disk of {disk.name}, {what}, counting from lsn {disk.begin}, life {disk.life}:")
        lines += [f"    {line}" for line in _rows(disk, event)]
    for number, fire in enumerate(past.fires):
        held = [disk.name for disk in fire.left if event.link in disk.links]
        lines.append(f"  fire {number} of {fire.burned.name}'s disk: held by the others {held}")
    return "\n".join(lines)


def _rows(disk: Disk, event: Event) -> list[str]:
    rows = disk.at(event.path)
    near = next((i for i, row in enumerate(rows) if row.event.tock >= event.tock), len(rows))
    begin = max(0, near - TOLD_MAX // 4)
    return [
        f"lsn {row.lsn} {row.arrived:.2f} {'won' if row.won else 'lost'} {row.event!r} chain {_chain(row.event)}"
        for row in rows[begin : begin + TOLD_MAX]
    ]


def _chain(event: Event) -> str:
    return " ".join(tick_text(*link) for link in event.chain) + (" ..." if event.truncated else "")
