"""A simulated node as those see it who watch it.

Knows: what a server's driver and settler do for watchers, whose turns (`engine.feeds`) are those of a server.
Does not know who watches, nor how he is told (`watching`).  The archive is a list here, of what won.

Invariant: what is told is durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from distkv.config import Limits
from distkv.core.ready import Ready
from distkv.engine.feeds import Feeds
from distkv.engine.missed import MISSED_KEY, closed_links, tells_missed
from distkv.model.tick_ranges import count_by_node
from distkv.sim.host import Process
from distkv.storage.archive_rows import HistoryRow
from distkv.wire.message import EventRecord, KnownRecord
from distkv.wire.records import encode_record
from distkv.wire.states import path_key

Row: TypeAlias = tuple[int, EventRecord | KnownRecord]
"""What won, or what was missed, and where in the log it stands."""


class WatchedProcess:
    """From the start of a process to its end."""

    def __init__(
        self, process: Process, limits: Limits, history: Sequence[Row], begin: int, counters: Counter[str]
    ) -> None:
        """`history`: what won before it started; `begin`: how many records its disk kept."""
        self.process: Final = process
        self.replica: Final = process.replica
        self.feeds: Final = Feeds(limits)
        self.history: Final = [row for row in history if row[0] < begin]
        self.position = 0
        self.counters: Final = counters
        self._begin: Final = begin

    @property
    def durable(self) -> int:
        return self.process.host.disk.durable

    def lsn_behind(self, position: int) -> int:
        return self._begin + position

    def stepped(self, ready: Ready) -> None:
        """As the driver does, and the settler."""
        begin = self._begin + self.position
        self.position += len(ready.records)
        won = {id(change.event) for change in ready.changes if change.won}
        closed = closed_links(ready.changes)
        for lsn, record in enumerate(ready.records, begin):
            if isinstance(record, EventRecord) and id(record.event) in won:
                self.history.append((lsn, record))
            if isinstance(record, KnownRecord) and tells_missed(record, closed):
                self.history.append((lsn, record))
        if self.feeds.count:
            self.feeds.note(ready.records, ready.changes, self.position, self.replica.tree)
            self.tell()

    def tell(self) -> None:
        """What is durable now is told to those who have time."""
        self.feeds.deliver(self.durable)
        for _ in self.feeds.news.turns():
            pass

    def rows(self, lsn: int, limit: int) -> list[HistoryRow]:
        """As the archive has them."""
        found = [row for row in self.history if row[0] >= lsn][:limit]
        return [_row(lsn, record) for lsn, record in found]

    def missed_since(self, lsn: int) -> Counter[str]:
        """How many changes the node missed, of which node, from a place in its log on."""
        found = Counter[str]()
        for at, record in self.history:
            if at >= lsn and isinstance(record, KnownRecord):
                found.update(count_by_node(record.ranges))
        return found


def _row(lsn: int, record: EventRecord | KnownRecord) -> HistoryRow:
    packed = encode_record(record)
    if isinstance(record, KnownRecord):
        return HistoryRow(lsn, MISSED_KEY, "", 0, 0.0, packed, True)
    event = record.event
    return HistoryRow(lsn, path_key(event.path), event.node, event.tick, 0.0, packed, True)
