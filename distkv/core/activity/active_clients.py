"""The clients of this node that are logged in, and those that wait for it.

Knows: of each login the client, its epoch, and what it waits for.  Does not know connections, nor what a client is
given.

Invariant: there are at most as many as may be, and the maps of those that wait have at most `ORIGINS_WAITING_MAX`
origins together. Who waits is not logged in, and waits for the node for
`PATIENCE_MS` at the most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import attrs

from distkv.core.activity.client_mark import ClientMark
from distkv.core.activity.origins import Origins
from distkv.core.activity.requests import Login
from distkv.model.invariant import must

PATIENCE_MS: Final = 5000
"""A client that is ahead of its new node waits so long until the node has what the client has."""
LONELY_MS: Final = 1000
"""It waits so long while no other node seems alive; not at all where there is no other one."""
ORIGINS_WAITING_MAX: Final = 300_000
"""A map of many origins takes room until its client is logged in."""
SERVED_MAX: Final = 1000
LACKING_MAX: Final = 16
"""Of one client that waits, so many origins are asked for at once."""
MOVED_MS: Final = 60_000
"""No client that is here is moved within this time after it came from another node."""


@attrs.define(slots=True, eq=False)
class ActiveClient:
    """One that is logged in."""

    id: int
    user: str
    mark: ClientMark | None
    """None: it does not resume."""
    stays_until_ms: int
    """It is not moved before."""
    is_leaving: bool = False
    """Whether it was told to go to another node."""


@attrs.define(slots=True, eq=False)
class _WaitingLogin:
    login: Login
    mark: ClientMark | None
    since_ms: int
    unseen: Iterator[tuple[str, int]]
    """Of the origins of its map, those that were not looked at yet."""
    again_ms: int = 0
    """When it is looked at again, if what it lacks could not be gathered; else 0."""
    lacked: tuple[str, int] | None = None
    """Of this origin the client has more than this node had, when it was looked at last: a node never gets less."""

    def look_on(self, reached: Callable[[str], int]) -> bool:
        """Look on; whether this node lacks something that the client has.

        A map may be long, and many may wait: each of its origins is looked at until the node is so far with it, then
        never again.
        """
        while self.lacked is None or reached(self.lacked[0]) >= self.lacked[1]:
            self.lacked = next(self.unseen, None)
            if self.lacked is None:
                return False
        return True

    @property
    def size(self) -> int:
        """How many origins its map has."""
        return len(self.login.resume or ())


@attrs.frozen(slots=True)
class Arrival:
    """A login whose turn has come."""

    id: int
    login: Login
    mark: ClientMark | None


class ActiveClients:
    """Those of one node."""

    def __init__(self, most: int, origins: Origins) -> None:
        self._most: Final = most
        self._origins: Final = origins
        self._all: Final = dict[int, ActiveClient]()
        self._waiting: Final = dict[int, _WaitingLogin]()
        self._served: Final = dict[int, None]()
        """From where somebody was let in since somebody waits; who was so last is the last."""
        self._patience_ms = PATIENCE_MS
        self._origins_waiting = 0
        """In the maps of those that wait."""
        self.leaving = 0
        """How many were told to go."""

    @property
    def load(self) -> int:
        """How many are logged in, and stay."""
        return len(self._all) - self.leaving

    @property
    def waiting(self) -> int:
        """How many wait until they are logged in."""
        return len(self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether nobody is connected any more, not even who is to go."""
        return not self._all

    @property
    def is_full(self) -> bool:
        """Whether there may be no further one."""
        return len(self._all) + len(self._waiting) >= self._most

    def find(self, id: int) -> ActiveClient | None:
        """The client whose login has this number."""
        return self._all.get(id)

    def all(self) -> Iterator[ActiveClient]:
        """Who is logged in, and stays; first who has been here longest."""
        return (client for client in self._all.values() if not client.is_leaving)

    def names(self) -> list[str]:
        """The users who are logged in here."""
        return sorted({client.user for client in self.all()})

    def wait(self, id: int, login: Login, mark: ClientMark | None, now_ms: int) -> None:
        """Somebody logs in, and is here as soon as this node has all that he has."""
        self._waiting[id] = _WaitingLogin(login, mark, now_ms, iter((login.resume or {}).items()))
        self._origins_waiting += self._waiting[id].size

    def take_crowding(self) -> int | None:
        """The login that is to be refused because the maps of all that wait are too large: that with the largest."""
        if self._origins_waiting <= ORIGINS_WAITING_MAX:
            return None
        id = max(self._waiting, key=lambda id: self._waiting[id].size)
        self._wait_no_more(id)
        return id

    def take_arrivals(self, now_ms: int, patience_ms: int, gather: Callable[[Login, int], int]) -> list[Arrival]:
        """Those who wait no longer: those who lack nothing, or have waited for so long. `gather` says when what
        somebody lacks can be gathered: now, or later."""
        self._patience_ms, found = patience_ms, list[Arrival]()
        for id, waiting in self._in_turn():
            if waiting.again_ms > now_ms:
                continue
            if not waiting.look_on(self._origins.reached) or waiting.since_ms + patience_ms <= now_ms:
                waiting.again_ms = gather(waiting.login, now_ms)
                if waiting.again_ms <= now_ms:
                    self._served.pop(waiting.login.source, None)
                    self._served[waiting.login.source] = None
                    if len(self._served) > SERVED_MAX:
                        del self._served[next(iter(self._served))]
                    self._wait_no_more(id)
                    found.append(Arrival(id, waiting.login, waiting.mark))
        return found

    def take_lacking(self, most: int) -> list[str]:
        """So many origins of which clients that wait have more than this node; of each client some. Those clients are
        the last ones the next time."""
        found = dict[str, None]()
        for id, waiting in list(self._waiting.items()):
            if len(found) >= most:
                break
            numbers = (waiting.login.resume or {}).items()
            lacking = (name for name, number in numbers if number > self._origins.reached(name))
            if some := dict.fromkeys(islice(lacking, LACKING_MAX)):
                found |= some
                self._waiting[id] = self._waiting.pop(id)
        return [*islice(found, most)]

    def add(self, client: ActiveClient) -> None:
        """It is logged in."""
        self._all[client.id] = client

    def leave(self, client: ActiveClient) -> None:
        """It was told to go."""
        client.is_leaving = True
        self.leaving += 1

    def gone(self, id: int) -> None:
        """Its connection ended."""
        self._wait_no_more(id)
        client = self._all.pop(id, None)
        if client is not None and client.is_leaving:
            self.leaving -= 1

    def wake_ms(self) -> int | None:
        """When the first of those who wait has waited long enough, or is looked at again."""
        return min((one.again_ms or one.since_ms + self._patience_ms for one in self._waiting.values()), default=None)

    def _in_turn(self) -> list[tuple[int, _WaitingLogin]]:
        """Who waits: first those from hosts from which nobody was let in for longest, or nobody at all."""
        if not self._waiting:
            self._served.clear()
        turns = {source: turn for turn, source in enumerate(self._served, 1)}
        return sorted(self._waiting.items(), key=lambda one: turns.get(one[1].login.source, 0))

    def _wait_no_more(self, id: int) -> None:
        waiting = self._waiting.pop(id, None)
        if waiting is not None:
            self._origins_waiting -= waiting.size

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._all) + len(self._waiting) <= self._most, "no more clients than there may be")
        sizes = [waiting.size for waiting in self._waiting.values()]
        must(sum(sizes) == self._origins_waiting <= ORIGINS_WAITING_MAX, "the maps of those that wait are small")
        must(self._all.keys().isdisjoint(self._waiting), "who waits is not logged in")
        must(sum(client.is_leaving for client in self._all.values()) == self.leaving, "who leaves is counted")
