"""User messages that ride on what is sent anyway, a few times each, those first that rode least.

Knows: how often each one rode.  Does not know to whom it goes, nor who allows it.

Invariant: each message is here once, and rode less often than it may. No more than `RIDING_MAX` are here: for a new one
that goes which rode most often.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.model.invariant import must
from distkv.wire.swim_records import UserMessage

RIDES: Final = 3
RIDING_MAX: Final = 1024
SKIPS_MAX: Final = 8
"""So many that find no place are passed over before there is none for any."""

_Key: TypeAlias = tuple[str, bytes, int]


class RidingMessages:
    """By how often they rode."""

    def __init__(self) -> None:
        self._levels: tuple[dict[_Key, tuple[UserMessage, int]], ...] = tuple({} for _ in range(RIDES))
        """With their sizes."""

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def add(self, message: UserMessage, size: int) -> None:
        """One that did not ride yet."""
        if len(self) >= RIDING_MAX:
            level = next(one for one in reversed(self._levels) if one)
            del level[next(iter(level))]
        self._levels[0][_key(message)] = message, size

    def take(self, room: int) -> list[tuple[UserMessage, int]]:
        """Those that ride on a datagram with so much room, and their sizes."""
        found, skips = [], 0
        for rode, level in enumerate(self._levels):
            for message, size in level.values():
                if size <= room:
                    found.append((rode, message, size))
                    room -= size
                    continue
                skips += 1
                if skips > SKIPS_MAX:
                    break
        for rode, message, size in found:
            del self._levels[rode][_key(message)]
            if rode + 1 < RIDES:
                self._levels[rode + 1][_key(message)] = message, size
        return [(message, size) for _, message, size in found]

    def check(self) -> None:
        must(len(self) <= RIDING_MAX, "few messages ride")
        must(len({key for level in self._levels for key in level}) == len(self), "each message rides once")


def _key(message: UserMessage) -> _Key:
    return message.origin, message.start, message.sequence
