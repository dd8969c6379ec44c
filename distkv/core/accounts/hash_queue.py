"""The slow hashes of secrets: few at a time, each source in turn, and of each source each user in turn.

Knows: which hashes are under way and which wait.  Does not know what they are for.

So who tries many secrets delays others by one hash at the most, also those of the same name that come from elsewhere.

Invariant: at most `AT_ONCE` are under way, and at most so many wait as were allowed, `NAME_MAX` of them for a name from
one source. What has to give up its place is told (`take_crowding`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from hashlib import scrypt
from typing import Final

from distkv.core.accounts.crowding import crowding
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
        self._waiting: Final = dict[int, dict[str, dict[Hashable, Callable[[], bytes]]]]()
        """By sources and names, of which the first is next; in the order in which they came."""
        self._sources: Final = dict[Hashable, tuple[int, str]]()
        """Of each that waits the source and the name, in the order in which they came."""
        self._crowding: Final = list[Hashable]()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._sources)

    def add(
        self, turn: ServiceTurn, source: int, username: str, purpose: Hashable, secret: bytes, salt: bytes, cost: int
    ) -> None:
        """Have a hash made; it comes as `Replied(purpose, ...)`, after which `done` is to be called.

        Raises:
            BusyError: too many wait from this source for this name.
        """
        names = self._waiting.setdefault(source, {})
        if len(names.get(username, ())) >= NAME_MAX:
            raise busy()
        names.setdefault(username, {})[purpose] = partial(hashed, secret, salt, cost)
        self._sources[purpose] = source, username
        self._go_on(turn)
        if len(self._sources) > self._waiting_max:
            gone = crowding({one: place for one, (place, _) in self._sources.items()})
            self._crowding.append(gone)
            self._take_out(gone)

    def take_crowding(self) -> list[Hashable]:
        """The purposes of those that gave up their place since the last time."""
        found = [*self._crowding]
        self._crowding.clear()
        return found

    def done(self, turn: ServiceTurn, purpose: Hashable) -> None:
        """One came."""
        self._running.discard(purpose)
        self._go_on(turn)

    def drop(self, purpose: Hashable) -> bool:
        """It is not wanted any more. One that is under way comes all the same; False: it is."""
        if purpose in self._sources:
            self._take_out(purpose)
        return purpose not in self._running

    def _go_on(self, turn: ServiceTurn) -> None:
        while self._sources and len(self._running) < AT_ONCE:
            source = next(iter(self._waiting))
            names = self._waiting.pop(source)
            username = next(iter(names))
            waiting = names.pop(username)
            purpose = next(iter(waiting))
            self._waiting[source] = names  # each behind all others
            names[username] = waiting
            job = self._take_out(purpose)
            self._running.add(purpose)
            turn.work(job, purpose)

    def _take_out(self, purpose: Hashable) -> Callable[[], bytes]:
        source, username = self._sources.pop(purpose)
        names = self._waiting[source]
        job = names[username].pop(purpose)
        if not names[username]:
            del names[username]
        if not names:
            del self._waiting[source]
        return job

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._running) <= AT_ONCE, "few hashes are made at a time")
        some = [waiting for names in self._waiting.values() for waiting in names.values()]
        must(len(self._sources) == sum(map(len, some)) <= self._waiting_max, "few hashes wait")
        must(all(0 < len(waiting) <= NAME_MAX for waiting in some), "few hashes wait for each name from one source")
        must(not self._sources or len(self._running) == AT_ONCE, "what waits, waits for those under way")


def busy() -> BusyError:
    """Too much waits."""
    return BusyError("too many secrets are being checked: try again later")


def hashed(secret: bytes, salt: bytes, cost: int) -> bytes:
    """scrypt; `cost` is the binary logarithm of its N."""
    return scrypt(secret, salt=salt, n=1 << cost, r=8, p=1, maxmem=MEMORY_MAX, dklen=HASH_BYTES)
