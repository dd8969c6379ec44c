"""Messages that no known subscriber is owed, and that are kept because some node may know one who is.

Knows: how many bytes of them each topic has, and how old the oldest is.  Does not know the messages themselves.

Invariant: `bytes` is the sum of all topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distkv.core.ground.alarms import Alarms
from distkv.model.invariant import must


class KeptMessages:
    """Those of all topics that a node owns."""

    def __init__(self) -> None:
        self.bytes = 0
        self._bytes: Final = dict[str, int]()
        """By topics; the first ones are asked for first."""
        self._oldest: Final = Alarms[str]()
        """By the times of the oldest messages."""

    def __len__(self) -> int:
        return len(self._bytes)

    def names(self) -> Iterator[str]:
        """The topics that have some; those that were put off come last."""
        return iter(self._bytes)

    def bytes_of(self, name: str) -> int:
        return self._bytes.get(name, 0)

    def set(self, name: str, bytes: int, oldest: float) -> None:
        """So many bytes a topic has now, and the oldest message has this time."""
        self.drop(name)
        self.bytes += bytes
        self._bytes[name] = bytes
        self._oldest.put(name, int(oldest * 1000))

    def drop(self, name: str) -> None:
        """A topic has none."""
        self.bytes -= self._bytes.pop(name, 0)
        self._oldest.drop(name)

    def put_off(self, name: str) -> None:
        """The others come before this one."""
        if name in self._bytes:
            self._bytes[name] = self._bytes.pop(name)

    def oldest(self) -> list[str]:
        """The topics with the oldest message; none when there is no message."""
        first_ms = self._oldest.first_ms
        if first_ms is None:
            return []
        found = self._oldest.take_due(first_ms)
        for name in found:
            self._oldest.put(name, first_ms)
        return found

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._oldest.check()
        must(self.bytes == sum(self._bytes.values()), "bytes is the sum of all topics")
        must({*self._oldest} == self._bytes.keys(), "of each topic the oldest message is known")
