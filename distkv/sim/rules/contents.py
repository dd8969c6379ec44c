"""One tick, one content: whatever a disk kept, it names the same change everywhere and for ever (TICK-1).

Knows: every event that became durable on any host.  An own event that no disk kept was never heard of, so its tick may
be used once more.
"""

from __future__ import annotations

from collections.abc import Sequence

from distkv.model.event import Event, Link, tick_text
from distkv.sim.host import Process
from distkv.sim.rule import Observer
from distkv.wire.message import EventRecord, Record


class OneContent(Observer):
    """No (node, tick) with two contents."""

    rule = "one content per tick"

    def __init__(self) -> None:
        self.contents: dict[Link, tuple[object, ...]] = {}

    def started(self, process: Process, records: Sequence[Record]) -> None:
        self.landed(process, records)

    def landed(self, process: Process, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, EventRecord):
                self._see(process.host.name, record.event)

    def _see(self, name: str, event: Event) -> None:
        content = (event.path, event.kind, event.value, event.older, event.tock)
        known = self.contents.setdefault(event.link, content)
        if known != content:
            raise self.broken(f"{tick_text(*event.link)} on {name} is {content}, elsewhere {known}")
