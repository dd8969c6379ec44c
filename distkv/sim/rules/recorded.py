"""Each tick that a node comes to hold has a record of its own: its event, or that it was superseded before that came.

So whoever is told what the log gets, as watchers are, can count: what won, what was an open loser and what was missed
come to all that was written.

Knows: what each process held when it started, and every record since.  Does not know who is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from distkv.core.ready import Input, Ready
from distkv.engine.missed import closed_links, tells_missed
from distkv.model.event import Link, NodeName, tick_text
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, common, ranges_of, without
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import (
    CeilingRecord,
    DataRecord,
    EventRecord,
    KnownRecord,
    LifeRecord,
    LostRecord,
    PurgeRecord,
    Record,
    ReleaseRecord,
    ResetRecord,
    SlotRecord,
    StaleRecord,
)


class HeldIsRecorded(Observer):
    """No tick is held without a record, none is missed twice, and what was shown is not missed."""

    rule = "what is held was shown or missed"

    def __init__(self) -> None:
        self._recorded: Final = dict[Process, TickRanges]()

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        if process.host.is_ours:
            self._recorded[process] = process.replica.tree.ledger.held()

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if not ready.records or not process.host.is_ours:
            return
        name, held, closed = process.host.name, self._recorded[process], closed_links(ready.changes)
        new, missed = dict[Link, None](), dict[NodeName, Ranges]()
        for record in ready.records:
            match record:
                case EventRecord(event=event):
                    if held.setdefault(event.node, Ranges()).add(event.tick):
                        new[event.link] = None
                case KnownRecord(ranges=ranges):
                    if not tells_missed(record, closed):
                        continue
                    if again := without(common(ranges, held), ranges_of(new)):
                        raise self.broken(f"{name} misses {again} once more")
                    for node, ticks in ranges.items():
                        held.setdefault(node, Ranges()).update(ticks)
                        missed.setdefault(node, Ranges()).update(ticks)
                case ReleaseRecord(ranges=ranges):
                    held = self._recorded[process] = without(held, ranges)
                case ResetRecord():
                    held = self._recorded[process] = {}
                case LostRecord() | LifeRecord() | CeilingRecord() | StaleRecord() | PurgeRecord():
                    pass
                case SlotRecord() | DataRecord():
                    pass
                case _:
                    assert_never(record)
        won = {change.event.link for change in ready.changes if change.won}
        for link in new:
            was_shown = link in won or link in closed or process.replica.tree.event(link) is not None
            if was_shown is (link[1] in missed.get(link[0], ())):
                fate = "shown and missed" if was_shown else "neither shown nor missed"
                raise self.broken(f"{name}: {tick_text(*link)} is {fate}")

    def ended(self, process: Process) -> None:
        if process.host.is_ours:
            self._check(process)
            del self._recorded[process]

    def second(self, fleet: Observed) -> None:  # noqa: ARG002
        for process in self._recorded:
            self._check(process)

    def _check(self, process: Process) -> None:
        held = process.replica.tree.ledger.held()
        if held != {node: ticks for node, ticks in self._recorded[process].items() if ticks}:
            unrecorded = without(held, self._recorded[process]) or without(self._recorded[process], held)
            raise self.broken(f"{process.host.name} holds {unrecorded} without a record, or not any more")
