"""The rows of one copy of a topic: what stands on the disk, and what changed since.

Knows: that a row that changes in a step is on the disk only behind it.  Does not know what is in a row.

Invariant: what is read is what was put last, whether the disk has it or not.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.core.ground.data import ServiceRows, row_size
from distkv.core.ground.turn import ServiceTurn
from distkv.model.invariant import must
from distkv.wire.topic_rows import SEPARATOR, kept_key, split_key

Changes: TypeAlias = dict[str, bytes | None]
"""Rows by their keys within a copy; None: the row is gone."""

KINDS: Final = "tpsdhm"
"""How the keys of rows begin, in the order in which they are read."""
NOTES_MAX: Final = 100
"""Of one step."""


class KeptRows:
    """Those of all copies of this node."""

    def __init__(self, data: ServiceRows) -> None:
        self.data: Final = data
        self.changed: Final = dict[str, CopyRows]()
        """The copies that have changes, by their ids."""
        self._kept: Final = dict[str, bytes | None]()
        """What was kept by the last step that kept anything: within that step, the data do not show it yet."""
        self._turn: ServiceTurn | None = None
        self.notes: Final = list[tuple[str, str, dict[str, object]]]()
        """What is worth counting, until something is kept: the id of the copy, that of the note, and its fields."""

    def find(self, kept: str) -> bytes | None:
        """What is kept under a key of the disk, by this step or before."""
        if kept in self._kept:
            return self._kept[kept]
        return self.data.get(kept)

    def keys_of(self, id: str) -> list[str]:
        """Of a copy all that are kept, by this step or before."""
        found = [key for kind in KINDS for key in self.data.keys(f"{kind}{SEPARATOR}{id}")]
        return [*found, *(key for key in self._kept if split_key(key)[0] == id)]

    def changed_bytes(self) -> int:
        """Of all changes: what they count when they are kept."""
        return sum(
            row_size(kept_key(id, key), value)
            for id, rows in self.changed.items()
            for key, value in rows.changes.items()
            if value is not None
        )

    def keep(self, turn: ServiceTurn, kept: str, value: bytes | None) -> None:
        """Keep a row with the step."""
        if turn is not self._turn:
            self._turn = turn
            self._kept.clear()
        turn.keep_data(kept, value)
        self._kept[kept] = value

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(rows.changes for rows in self.changed.values()), "what changed has changes")
        must(len(self.notes) <= NOTES_MAX, "notes are bounded")


class CopyRows:
    """Those of one copy."""

    def __init__(self, kept: KeptRows, id: str) -> None:
        self.changes: Changes = {}
        """Since they were kept the last time."""
        self.id: Final = id
        self._kept: Final = kept

    def note(self, note: str, **fields: object) -> None:
        """Something is worth counting."""
        if len(self._kept.notes) < NOTES_MAX:
            self._kept.notes.append((self.id, note, fields))

    def put(self, key: str, value: bytes | None) -> None:
        """Change a row; behind all that changed before."""
        self.changes.pop(key, None)
        self.changes[key] = value
        self._kept.changed[self.id] = self

    def remove_all(self) -> None:
        """The copy is thrown: all its rows go, and nobody is told of them."""
        keys = [split_key(key)[1] for key in self._kept.keys_of(self.id)]
        self.changes = dict.fromkeys([*keys, *self.changes])
        self._kept.changed.pop(self.id, None)

    def get(self, key: str) -> bytes | None:
        if key in self.changes:
            return self.changes[key]
        return self._kept.find(kept_key(self.id, key))

    def keep(self, turn: ServiceTurn) -> Changes:
        """Keep all changes with the step; which they were."""
        changes, self.changes = self.changes, {}
        for key, value in changes.items():
            self._kept.keep(turn, kept_key(self.id, key), value)
        return changes

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(not self.changes or self._kept.changed.get(self.id) is self, "changes will be kept")
        self._kept.check()
