"""What a stretch of the log brought, as the archive is to have it.

Knows: what each path, slot and row of data that it touched holds at its end.  Does not know when a stretch ends
(`settler`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from distkv.storage.archive_rows import HistoryRow, SlotRow, StateRow
from distkv.wire.states import entry_of_record


@attrs.define(slots=True)
class LogStretch:
    """What a stretch of the log brought."""

    count: int = 0
    """How many records it has."""
    size: int = 0
    """How many bytes they have."""
    history: list[HistoryRow] = attrs.field(factory=list)
    held: dict[bytes, HistoryRow | bytes | None] = attrs.field(factory=dict)
    """What each path that it touched holds at its end: nearly always one event alone; or an entry, or nothing."""
    slots: dict[tuple[str, str], None] = attrs.field(factory=dict)
    """The slots that it touched; what they hold is looked up at its end."""
    data: dict[tuple[str, str], bytes | None] = attrs.field(factory=dict)
    """What each row of data that it touched holds at its end, by service and key."""
    forget_data: bool = False
    """Whether what was settled of that before is void: some was damaged, and `data` has all there is."""
    forget: bool = False
    """Whether what was settled before is void, but for the history: the node started anew in it, or some of that was
    damaged."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to settle."""
        return not self.count and not self.forget

    def states(self) -> Iterator[StateRow]:
        """What is there now, in order of path; each is made when it is asked for, which is on the settling thread."""
        new_row = tuple.__new__  # a third of the time; there may be ten thousand
        for path in sorted(self.held):
            held = self.held[path]
            if held is not None:
                entry = entry_of_record(held.record) if type(held) is HistoryRow else held
                yield new_row(StateRow, (path, entry))

    def slot_rows(self, kept: Mapping[str, Mapping[str, bytes]]) -> tuple[list[SlotRow], list[tuple[str, str]]]:
        """What it changed of the slots, of which these are kept now: those that are, and those that are not any more.
        What was settled before may be void; then all that are kept."""
        if self.forget:
            return [SlotRow(machine, key, held[key]) for machine, held in kept.items() for key in held], []
        touched = [(machine, key, kept.get(machine, {}).get(key)) for machine, key in self.slots]
        rows = [SlotRow(machine, key, value) for machine, key, value in touched if value is not None]
        return rows, [(machine, key) for machine, key, value in touched if value is None]
