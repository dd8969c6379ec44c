"""Networks stay apart (NET-2), and what strangers say is not believed.

Knows: the names of those who are none of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from distkv.model.event import tick_text
from distkv.sim.host import Process
from distkv.sim.rule import Observer
from distkv.sim.strangers import FOREIGNER, LIAR, LIE
from distkv.wire.message import EventRecord, Record


class StaysApart(Observer):
    """No disk of ours holds what another network wrote, none of theirs what ours did, and nobody keeps a lie."""

    rule = "networks stay apart"

    def landed(self, process: Process, records: Sequence[Record]) -> None:
        is_foreign = process.host.name == FOREIGNER
        for record in records:
            if isinstance(record, EventRecord):
                event = record.event
                if (event.node == FOREIGNER) != is_foreign:
                    raise self.broken(f"{process.host.name} keeps {tick_text(*event.link)} of another network")
                if event.node == LIAR or event.value == LIE:
                    raise self.broken(f"{process.host.name} keeps {tick_text(*event.link)}, a lie")
