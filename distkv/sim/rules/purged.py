"""What was forgotten stays so: no value that a purged deletion knew of comes back (docs/protocol, PURGE-1).

Knows: for each change the newest change of each writer that it knew, directly or through others: vector clocks, beside
the bounded chains of the product.  Does not look at ledgers or reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from distkv.core.ready import Input, Ready
from distkv.model.event import COUNT_BITS, Event, Kind, Link, Writer, tick_text
from distkv.model.path import Path
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import EventRecord, PurgeRecord, Record, ResetRecord, StaleRecord

Known: TypeAlias = dict[Writer, int]
"""Of each writer the tick up to which its changes of one path were known."""


class PurgedStays(Observer):
    """On a host that purged a deletion, and in the end on all, no value shows that the deletion knew of.

    The deletion itself may come back, where it wins over something (SYNC-4). Where all disks are old ones they compare
    with each other, and what one has forgotten comes from the next (LIFE-19).
    """

    rule = "purged stays purged"

    def __init__(self) -> None:
        self.count = 0
        self._known: dict[Path, dict[Link, Known]] = {}
        self._gone: dict[str, dict[Path, Known]] = {}
        self._old_disks: dict[str, None] = {}

    def started(self, process: Process, records: Sequence[Record]) -> None:
        self._gone[process.host.name] = {}
        self._old_disks.pop(process.host.name, None)
        for record in records:
            if not isinstance(record, EventRecord):  # whatever a disk has was seen when it was made
                self._see(process.host.name, record)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        name, tree = process.host.name, process.replica.tree
        for record in ready.records:
            self._see(name, record)
            if isinstance(record, EventRecord) and tree.event(record.event.link) is record.event:
                if self._gone.keys() <= self._old_disks.keys():
                    for gone in self._gone.values():
                        gone.pop(record.event.path, None)
                self._check(name, self._gone[name], record.event)

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._gone.pop(host.name, None)
        self._old_disks.pop(host.name, None)

    def settled(self, fleet: Observed) -> None:
        for host in fleet.running():
            for gone in self._gone.values():
                for path in gone:
                    entry = host.live.tree.get(path)
                    if entry is not None:
                        for event in (entry.head, *entry.losers):
                            self._check(host.name, gone, event)

    # -- inside

    def _see(self, name: str, record: Record) -> None:
        if isinstance(record, EventRecord):
            event = record.event
            known = self._known.setdefault(event.path, {})
            if event.node == name or event.link not in known:  # a tick that no disk kept may be used once more
                known[event.link] = _known_to(event, known)
        elif isinstance(record, PurgeRecord):
            self.count += 1
            gone = self._gone[name].setdefault(record.path, {})
            for link in record.links:
                _join(gone, self._known[record.path][link])
        elif isinstance(record, ResetRecord):
            self._gone[name] = {}
            self._old_disks.pop(name, None)
        elif isinstance(record, StaleRecord):
            self._old_disks.pop(name, None)
            if record.is_stale:
                self._old_disks[name] = None

    def _check(self, name: str, gone: dict[Path, Known], event: Event) -> None:
        if event.kind is Kind.SET and event.tick <= gone.get(event.path, {}).get(event.writer, -1):
            raise self.broken(f"{name} shows {tick_text(*event.link)} at {event.path}, which was purged")


def _known_to(event: Event, others: dict[Link, Known]) -> Known:
    """What an event knew, and itself. A link speaks for its writer up to its tick."""
    known: Known = {event.writer: event.tick}
    for node, tick in event.older:
        _join(known, {(node, tick >> COUNT_BITS): tick})
        _join(known, others.get((node, tick), {}))
    return known


def _join(known: Known, more: Known) -> None:
    for writer, tick in more.items():
        known[writer] = max(known.get(writer, -1), tick)
