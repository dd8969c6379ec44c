"""What a node calls superseded it can show: something there has replaced it, or it was purged (PULL-5).

Knows: every event that was seen anywhere, and with it who knew whom.  Does not know who said what to whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from distkv.core.ready import Input, Ready
from distkv.model.entry import LOSERS_MAX, Entry
from distkv.model.event import COUNT_BITS, Event, Kind, Link, NodeName, Writer, sort_down, tick_text
from distkv.model.path import Path
from distkv.model.tick_ranges import TickRanges
from distkv.sim.host import Process
from distkv.sim.rule import Observer
from distkv.wire.message import (
    CeilingRecord,
    DataRecord,
    EventRecord,
    KnownRecord,
    LifeRecord,
    LostRecord,
    PurgeRecord,
    ReleaseRecord,
    ResetRecord,
    SlotRecord,
    StaleRecord,
)


class SupersededIsCovered(Observer):
    """Whoever holds a tick as superseded has what superseded it, or what replaced that in its turn.

    Looked at when a node believes a peer's word, and when a life begins, as after a download. Before that one is
    complete, what its sponsor called superseded is not covered yet.
    """

    rule = "what is superseded is covered"

    def __init__(self) -> None:
        self.count = 0
        """How many ticks were looked at whose events are known."""
        self._events: dict[NodeName, dict[int, Event]] = {}
        """By the node of its writer, and its tick."""
        self._seen: dict[Path, dict[Link, Event]] = {}
        self._ordered: dict[Path, list[Event]] = {}
        """The same, the highest first, of paths that were looked at since one more was seen: each node looks again."""
        self._purged: dict[Path, set[Link]] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if not process.host.is_ours:
            self._note_purged(ready)
            return
        tree, events = process.replica.tree, list[Event]()
        for record in ready.records:
            match record:
                case EventRecord(event=event):
                    written = self._events.setdefault(event.node, {})
                    if event.node == process.host.name or event.tick not in written:
                        written[event.tick] = event  # a tick that no disk kept may be used once more
                        self._seen.setdefault(event.path, {})[event.link] = event
                        self._ordered.pop(event.path, None)
                case PurgeRecord(path=path):
                    self._purged.setdefault(path, set()).update(record.links)
                case KnownRecord(ranges=ranges):
                    events += self._among(ranges)
                case LifeRecord():
                    events += self._among(tree.superseded())
                case LostRecord() | ReleaseRecord() | ResetRecord() | CeilingRecord() | StaleRecord():
                    pass
                case SlotRecord() | DataRecord():
                    pass
                case _:
                    assert_never(record)
        if events and process.replica.life is not None:
            self._check(process, events)

    def _note_purged(self, ready: Ready) -> None:
        """A namesake that was let into our network forgets deletions as the others do (NAME-2)."""
        for record in ready.records:
            if isinstance(record, PurgeRecord):
                self._purged.setdefault(record.path, set()).update(record.links)

    def _among(self, ranges: TickRanges) -> Iterator[Event]:
        """The events of these ticks, as far as they were seen."""
        for node, ticks in ranges.items():
            yield from (event for tick, event in self._events.get(node, {}).items() if tick in ticks)

    def _check(self, process: Process, events: Iterable[Event]) -> None:
        by_path: dict[Path, list[Link]] = {}
        for event in events:
            if process.replica.tree.event(event.link) is None:  # else it is the winner still (APPLY-5)
                by_path.setdefault(event.path, []).append(event.link)
        for path, some in by_path.items():
            entry = process.replica.tree.get(path)
            if entry is not None and len(entry.losers) >= LOSERS_MAX:
                continue  # what does not fit among the losers is in local histories only (OPEN-3)
            self.count += len(some)
            covered = self._covered(path, entry)
            for link in some:
                if link not in covered:
                    name, tick = process.host.name, tick_text(*link)
                    raise self.broken(f"{name} takes {tick} at {path} for superseded, and has nothing that knew it")

    def _covered(self, path: Path, entry: Entry | None) -> set[Link]:
        """As `covered_by`, without sorting all events of a path anew for each node that has what was seen of it."""
        seen, here = self._seen[path], _events_at(entry)
        purged = self._purged.get(path, set())
        if any((known := seen.get(link)) is None or not _is_alike(known, event) for link, event in here.items()):
            return covered_by(entry, seen.values(), purged)
        ordered = self._ordered.get(path)
        if ordered is None:
            ordered = self._ordered[path] = [*seen.values()]
            sort_down(ordered)
        return _kept(ordered, {*here, *purged})


def covered_by(entry: Entry | None, events: Iterable[Event], purged: Iterable[Link]) -> set[Link]:
    """Which of the events of a path are at an entry, or known to one that is there, or that is known itself.

    `purged` are deletions that were carried out, and forgotten by those who had them. Of an expiry the same holds: what
    it knew was over.
    """
    here = _events_at(entry)
    ordered = list({**{event.link: event for event in events}, **here}.values())
    sort_down(ordered)
    return _kept(ordered, {*here, *purged})


def _events_at(entry: Entry | None) -> dict[Link, Event]:
    return {event.link: event for event in (entry.head, *entry.losers)} if entry is not None else {}


def _is_alike(event: Event, other: Event) -> bool:
    """Whether two events of one tick have the same place among the others, and knew the same."""
    return event is other or (event.tock, event.kind, event.older) == (other.tock, other.kind, other.older)


def _kept(ordered: Iterable[Event], kept: set[Link]) -> set[Link]:
    """Those in `kept`, and what is known to one of them, or to what is known itself."""
    known: dict[Writer, int] = {}  # what the chains of those that are kept say, all of which are above the next one
    for event in ordered:
        link = node, tick = event.node, event.tick
        writer = (node, tick >> COUNT_BITS)
        if link in kept or event.kind is Kind.EXPIRE or tick <= known.get(writer, -1):
            kept.add(link)
            for node, tick in (link, *event.older):
                writer = (node, tick >> COUNT_BITS)
                if tick > known.get(writer, -1):
                    known[writer] = tick
    return kept
