"""What an archive gives to a node that starts.

Knows: the parts of that.  Does not know how they were read, nor what becomes of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from distkv.core.ground.data import DataRow
from distkv.core.ground.slots import Slot
from distkv.model.entry import Entry
from distkv.model.event import Writer
from distkv.model.ledger import WriterLedger
from distkv.wire.states import Meta


@attrs.frozen
class ArchivedState:
    """All that was settled, as far as it is intact; each part is read once."""

    meta: Meta
    books: Iterable[tuple[Writer, WriterLedger]]
    entries: Iterable[Entry]
    slots: Iterable[Slot] | None = ()
    """What services promise; None: something of that is damaged."""
    data: Iterable[DataRow] = ()
    """What they keep row by row."""
