"""A disk on which rows of the archive rotted, as the next start finds it.

Knows: what a settlement keeps of a log, and what is left of it when rows do not check.  Does not know when that
happens, nor who notices.

Invariant: what is left are whole entries, as a real archive gives them; the start hears at which paths others are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import attrs

from distkv.core.archived import ArchivedState
from distkv.core.ground.data import DataRow
from distkv.core.ground.slots import Slot
from distkv.core.registry import NETWORK_PATH
from distkv.core.replica import Replica
from distkv.core.update import Store
from distkv.model.event import Link, NodeName, Writer
from distkv.model.path import Path
from distkv.wire.message import EventRecord, Record
from distkv.wire.states import Meta, decode_book, decode_entry, encode_book, encode_entry


@attrs.frozen
class Rotten:
    """What is left in an archive."""

    meta: Meta
    books: Sequence[tuple[Writer, bytes]]
    entries: Sequence[bytes]
    history: Sequence[tuple[Path, Link]]
    slots: Sequence[Slot]
    """What services promise, which is spared."""
    data: Sequence[DataRow]
    """What they keep row by row, as far as it is left."""
    lost_data: Sequence[RowKey]
    """The rows of that which rotted."""
    paths: Sequence[Path]
    """Of the entries that are left."""
    gone: Sequence[Path]
    """Of the others."""

    def load_into(self, replica: Replica) -> list[Record]:
        """What a start does before it reads the log; returns records of the events that it found."""
        books = [(writer, decode_book(writer[1], book)) for writer, book in self.books]
        entries = [decode_entry(entry) for entry in self.entries]
        replica.store.load(ArchivedState(self.meta, books, entries, self.slots, self.data))
        replica.store.data.lose(self.lost_data)
        if self.gone:
            replica.store.doubt(self.history)
            replica.store.lose(self.gone)
        return [EventRecord(event, 0.0) for entry in entries for event in (entry.head, *entry.losers)]


Choose: TypeAlias = Callable[[Sequence[Path]], Sequence[Path]]
"""Of the paths that may rot those that do."""
RowKey: TypeAlias = tuple[str, str]
"""The service of a row of data, and its key."""
ChooseRows: TypeAlias = Callable[[Sequence[RowKey]], Sequence[RowKey]]
"""The same of rows of data."""


def no_rows(_: Sequence[RowKey]) -> Sequence[RowKey]:
    """None of them rots."""
    return ()


def rotten(name: NodeName, records: Iterable[Record], choose: Choose, choose_rows: ChooseRows) -> Rotten | None:
    """Settle records, and let the rows of some paths rot, and some rows of data; None where there are none.

    The row that says which network the node belongs to is spared: without it a start is refused.
    """
    store, history = Store(name, 2), list[tuple[Path, Link]]()
    for record in records:
        store.replay(record)
        if isinstance(record, EventRecord):
            history.append((record.event.path, record.event.link))
    gone = choose([entry.head.path for entry in store.tree.entries() if entry.head.path != NETWORK_PATH])
    lost = choose_rows(sorted(store.data.rows()))
    if not (gone or lost) or not store.has_data:
        return None
    books = [(writer, encode_book(book)) for writer, book in store.tree.ledger.writers()]
    kept = [entry for entry in store.tree.entries() if entry.head.path not in gone]
    slots = [(machine, key, held[key]) for machine, held in store.slots.items() for key in held]
    data = [(*row, store.data.find(*row) or b"") for row in store.data.rows() if row not in lost]
    paths = [entry.head.path for entry in kept]
    return Rotten(store.meta(), books, [*map(encode_entry, kept)], history, slots, data, lost, paths, gone)
