"""What of an archive was found damaged, and is not known to be whole again.

Knows: each place once, since when, and which rows of the history are among them.  Does not know how damage is found
(`archive`, `archive_scrub`), nor how it is healed.

Invariant: each place is told once, to whoever was named; no more than `DAMAGE_MAX` places are kept, the first ones.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Container
from math import inf
from typing import Final, TypeAlias

from distkv.errors import DamagedError
from distkv.storage.archive_rows import DamagedRow, check_damage

DAMAGE_MAX: Final = 1000
NOT_CERTAIN: Final = "what the path held then is not certain: a row of this node's history is damaged; ask another node"

Tell: TypeAlias = Callable[[DamagedRow], None]


def say_nothing(_damage: DamagedRow) -> None:
    """Nobody wants to hear of damage."""


class DamageList:
    """May be used from any thread, but for `save`, which belongs to a transaction of the archive's writer."""

    def __init__(self, tell: Tell) -> None:
        self._tell: Final = tell
        self._found: dict[DamagedRow, float] = {}
        self._is_saved = True
        self.noted_count = 0
        """How many places were noted; never less."""
        self._changing = threading.Lock()

    def all(self) -> dict[DamagedRow, float]:
        """Each, and when it was found, in seconds since 1970."""
        with self._changing:
            return dict(self._found)

    @property
    def history_end(self) -> int:
        """Behind the last row of the history among them; 0 when there is none."""
        return max((damage.lsn + 1 for damage in self.all() if damage.lsn is not None), default=0)

    @property
    def history_rows(self) -> set[int]:
        """The rows of the history among them."""
        return {damage.lsn for damage in self.all() if damage.is_past_row and damage.lsn is not None}

    def note(self, damage: DamagedRow) -> None:
        """Keep it in mind, and tell it, when it is a new one."""
        with self._changing:
            if damage in self._found or len(self._found) >= DAMAGE_MAX:
                return
            self._found[damage] = time.time()
            self._is_saved = False
            self.noted_count += 1
        self._tell(damage)

    def forget(self, healed: Container[DamagedRow]) -> None:
        """These are whole again."""
        with self._changing:
            self._found = {damage: found for damage, found in self._found.items() if damage not in healed}
            self._is_saved = False

    def check_certain(self, path: bytes, lsn: int) -> None:
        """
        Raises:
            DamagedError: behind this row of the history there may have been another one of the path.
        """
        if self.is_past_lost(path, lsn + 1):
            raise DamagedError(NOT_CERTAIN)

    def is_past_lost(self, path: bytes, low: int, high: float = inf) -> bool:
        """Whether a row of a path's history that is damaged may be one of these, up to, not including, `high`."""
        return any(d.lsn is not None and low <= d.lsn < high and d.path in (None, path) for d in self.all())

    # -- in the file

    def load(self, reader: sqlite3.Connection) -> None:
        """What the file knows. A row that does not check is left out: what it was about will be found again."""
        for place, path, lsn, found, checked in reader.execute("SELECT place, path, lsn, found, checked FROM damage"):
            damage = DamagedRow(str(place), path, lsn)  # a page that belongs elsewhere has rows of other types
            if check_damage(damage, found) == checked:
                self._found[damage] = found

    def save(self, writer: sqlite3.Connection) -> None:
        """Write it all down, if something changed."""
        if self._is_saved:
            return
        with self._changing:
            self._is_saved = True
            rows = [(d.place, d.path, d.lsn, found, check_damage(d, found)) for d, found in self._found.items()]
        writer.execute("DELETE FROM damage")
        writer.executemany("INSERT INTO damage VALUES (?, ?, ?, ?, ?)", rows)
