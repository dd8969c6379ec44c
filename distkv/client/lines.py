"""The connections of one blocking client, which are ended together.

Knows: those that exist, from their first attempt to connect on.  Does not know what they are used for.

Invariant: when `end` returns each of them is stopped, and each that is added later is stopped at once. One that nobody
holds any more is not kept.
"""

from __future__ import annotations

from typing import Final, Protocol
from weakref import WeakValueDictionary


class Line(Protocol):
    """A connection."""

    def stop(self) -> None:
        """End it, from any thread: who waits on it is told at once."""


class Lines:
    """Of one client. For any thread."""

    def __init__(self) -> None:
        self._there: Final = WeakValueDictionary[int, Line]()
        self._are_ended = False

    @property
    def are_ended(self) -> bool:
        return self._are_ended

    def add(self, line: Line) -> None:
        """For as long as it exists."""
        self._there[id(line)] = line
        if self._are_ended:
            line.stop()

    def end(self) -> None:
        """May be called again."""
        self._are_ended = True
        for found in self._there.valuerefs():
            if (line := found()) is not None:
                line.stop()
