"""The slow hashes of secrets: few at a time, and each user in turn.

Knows: which hashes are under way and which wait.  Does not know what they are for.

So who tries many secrets for one name delays others by one hash at the most.

Invariant: at most `AT_ONCE` are under way, and at most so many wait as were allowed, `NAME_MAX` of them for a name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from hashlib import scrypt
from typing import Final

from distkv.core.ground.turn import ServiceTurn
from distkv.errors import BusyError
from distkv.model.invariant import must
from distkv.wire.account_entries import HASH_BYTES

AT_ONCE: Final = 2
NAME_MAX: Final = 64
MEMORY_MAX: Final = 256 << 20


class HashQueue:
    """That of one node."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max: Final = waiting_max
        self._running: Final = set[Hashable]()
        """Their purposes."""
        self._waiting: Final = dict[str, deque[tuple[Hashable, Callable[[], bytes]]]]()
        """By names; the first name is next."""
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._count

    def add(self, turn: ServiceTurn, username: str, purpose: Hashable, secret: bytes, salt: bytes, cost: int) -> None:
        """Have a hash made; it comes as `Replied(purpose, ...)`, after which `done` is to be called.

        Raises:
            BusyError: too many wait.
        """
        if self._count >= self._waiting_max or len(self._waiting.get(username, ())) >= NAME_MAX:
            raise BusyError("too many secrets are being checked: try again later")
        self._waiting.setdefault(username, deque()).append((purpose, partial(hashed, secret, salt, cost)))
        self._count += 1
        self._go_on(turn)

    def done(self, turn: ServiceTurn, purpose: Hashable) -> None:
        """One came."""
        self._running.discard(purpose)
        self._go_on(turn)

    def drop(self, username: str, purpose: Hashable) -> bool:
        """It is not wanted any more. One that is under way comes all the same; False: it is."""
        waiting = self._waiting.get(username)
        left = deque([one for one in waiting or () if one[0] != purpose])
        self._count -= len(waiting or ()) - len(left)
        if left:
            self._waiting[username] = left
        else:
            self._waiting.pop(username, None)
        return purpose not in self._running

    def _go_on(self, turn: ServiceTurn) -> None:
        while self._waiting and len(self._running) < AT_ONCE:
            name = next(iter(self._waiting))
            waiting = self._waiting.pop(name)
            purpose, job = waiting.popleft()
            if waiting:
                self._waiting[name] = waiting  # behind all others
            self._count -= 1
            self._running.add(purpose)
            turn.work(job, purpose)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._running) <= AT_ONCE, "few hashes are made at a time")
        must(self._count == sum(map(len, self._waiting.values())) <= self._waiting_max, "few hashes wait")
        must(all(0 < len(some) <= NAME_MAX for some in self._waiting.values()), "few hashes wait for each name")
        must(not self._waiting or len(self._running) == AT_ONCE, "what waits, waits for those under way")


def hashed(secret: bytes, salt: bytes, cost: int) -> bytes:
    """scrypt; `cost` is the binary logarithm of its N."""
    return scrypt(secret, salt=salt, n=1 << cost, r=8, p=1, maxmem=MEMORY_MAX, dklen=HASH_BYTES)
