"""Values with a ttl go, and not before their time (docs/protocol, TTL-2 to TTL-4).

Knows: since when each process has each value, in true time.  Does not know who should end it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.core.ready import Input, Ready, Wake
from distkv.model.event import Event, Kind, Link, tick_text
from distkv.model.path import Path
from distkv.sim.fleet import Fleet
from distkv.sim.process import Process
from distkv.sim.rule import Observer
from distkv.wire.message import EventRecord, Record

DRIFT: Final = 1.1
"""More than any clock runs fast or slow."""
TROUBLE_MS: Final = 150_000
"""More than faults keep everybody from ending a value."""


class TtlEnds(Observer):
    """No process ends a value before its ttl has passed there, and none is left long after it."""

    rule = "values with a ttl end"

    def __init__(self) -> None:
        self._since: dict[str, dict[Link, int]] = {}
        self._shown: dict[str, dict[Path, Event]] = {}

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        entries = list(process.replica.tree.entries())
        self._shown[process.host.name] = {entry.head.path: entry.head for entry in entries}
        here = [event.link for entry in entries for event in (entry.head, *entry.losers)]
        self._since[process.host.name] = dict.fromkeys(here, process.now_ms)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        for record in ready.records:
            if isinstance(record, EventRecord):
                if record.event.kind is Kind.EXPIRE and isinstance(what, Wake):  # it is made here, and did not come
                    self._check_expiry(process, record.event)
                self._see(process, record.event)

    def settled(self, fleet: Fleet) -> None:
        for host in fleet.running():
            for entry in host.live.tree.entries():
                ttl, since_ms = entry.head.ttl, self._since[host.name].get(entry.head.link)
                if ttl is not None and since_ms is not None:
                    late_ms = fleet.now_ms - since_ms - 2000 * ttl * DRIFT
                    if late_ms > TROUBLE_MS:
                        raise self.broken(f"{host.name} still shows {entry.head!r}, {late_ms / 1000:.0f} s too late")

    # -- inside

    def _see(self, process: Process, event: Event) -> None:
        name = process.host.name
        self._since[name].setdefault(event.link, process.now_ms)
        head = process.replica.tree.head(event.path)
        if head is not None:
            self._shown[name][event.path] = head

    def _check_expiry(self, process: Process, expiry: Event) -> None:
        """What a process ends is what it has shown for so long."""
        name = process.host.name
        ended = self._shown[name].get(expiry.path)
        where = f"{name} ends {expiry.path} by {tick_text(*expiry.link)}"
        if ended is None or ended.ttl is None:
            raise self.broken(f"{where}, which shows {ended!r}: that has no ttl")
        if expiry.tock != ended.tock + 1:
            raise self.broken(f"{where} with the tock {expiry.tock}, and {ended!r} has {ended.tock}")
        shown_ms = process.now_ms - self._since[name][ended.link]
        is_writer = ended.node == process.host.node  # by its name, which a second server of one name shares (TTL-3)
        if shown_ms * DRIFT < ended.ttl * 1000 * (1 if is_writer else 2):
            raise self.broken(f"{where} after {shown_ms} ms, and its ttl is {ended.ttl} s")
