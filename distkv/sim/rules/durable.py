"""Nobody hears of what a crash could undo: what leaves a node was on its disk before (docs/architecture, 'Ready').

Knows: the ticks that each disk ever kept, and what is said on the wire.  Does not look at what waits in a process.

Invariant: what was durable once may be spoken of for ever, even if its disk is lost later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from distkv.core.ready import Ask, Input, PeerAnswered, PeerOffered
from distkv.model.event import COUNT_BITS, Event, NodeName, Writer, tick_text
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observer
from distkv.wire.message import EventBatch, EventRecord, Header, Message, Record, SnapshotHead, TickMaps, Update

COUNTS: Final = (1 << COUNT_BITS) - 1


class NothingUndone(Observer):
    """What is said names no tick that its writer's disk has not."""

    rule = "nobody hears of what a crash could undo"

    def __init__(self) -> None:
        self._kept: dict[Writer, int] = {}
        """The highest tick of each writer that its own disk kept."""

    def started(self, process: Process, records: Sequence[Record]) -> None:
        self.landed(process, records)

    def landed(self, process: Process, records: Sequence[Record]) -> None:
        node, kept = process.host.node, self._kept
        for record in records:
            if isinstance(record, EventRecord) and record.event.node == node:
                event = record.event
                if event.tick > kept.get(event.writer, -1):
                    kept[event.writer] = event.tick

    def left(self, process: Process, message: Message | Ask) -> None:  # noqa: ARG002
        if isinstance(message, Ask):
            return
        self._check_header(message.header)
        if isinstance(message, Update):
            self._check_events(message.events)

    def delivered(self, host: Host, what: Input) -> None:  # noqa: ARG002
        if isinstance(what, PeerOffered):
            self._check_header(what.maps.header)
        elif isinstance(what, PeerAnswered):
            if isinstance(what.answer, TickMaps | SnapshotHead):
                self._check_header(what.answer.header)
            elif isinstance(what.answer, EventBatch):
                self._check_events(what.answer.events)

    def acknowledged(self, process: Process, event: Event) -> None:  # noqa: ARG002
        self._check_events((event,))

    # -- inside

    def _check_header(self, header: Header) -> None:
        if header.tick & COUNTS:  # else it has written nothing in its life
            self._check(header.node, header.tick)

    def _check_events(self, events: Iterable[Event]) -> None:
        for event in events:
            self._check(event.node, event.tick)

    def _check(self, node: NodeName, tick: int) -> None:
        if tick > self._kept.get((node, tick >> COUNT_BITS), -1):
            raise self.broken(f"{tick_text(node, tick)} is spoken of, and is not on the disk of {node}")
