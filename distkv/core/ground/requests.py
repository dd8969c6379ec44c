"""The requests to the services of this node that are open: of clients, and of other services of it; and their work.

Knows: who asked what, for which purpose, and what services are still to be told of each other.  Does not know what is
asked or done, nor who may ask (`services`).

A request of a client has a number above 0, which its session gave; one of a service has a number below 0.

Invariant: each request of a service is replied to once more at the most after its last answer, and never after it was
withdrawn. A service waits for at most `ASKS_MAX` answers of others, so services that ask each other in a circle come to
an end; and has at most `WORKS_MAX` works under way, wanted or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import AskContinued, AskedOfService, AskWithdrawn, WorkWanted
from distkv.core.ready import Answer, ServiceAsked, ServiceContinued, ServiceWithdrawn, Work, WorkDone
from distkv.errors import BusyError
from distkv.model.invariant import must

ASKS_MAX: Final = 256
"""So many requests of one service wait for others."""
WORKS_MAX: Final = 64
"""So many works of one service are under way."""

OwnInput: TypeAlias = ServiceAsked | ServiceContinued | ServiceWithdrawn | Replied
"""What one service hears of another one of its node."""


class WordWithin(NamedTuple):
    """What a service is to be told, because of what another one did."""

    service: str
    what: OwnInput
    id: int
    """The number of the request."""


class _OpenAsk(NamedTuple):
    asker: str
    service: str
    """Empty: it is work."""
    purpose: object


class Requests:
    """Those of one node."""

    def __init__(self) -> None:
        self.open: Final[dict[int, str]] = {}
        """Those that are not answered, and whom they ask."""
        self.following: Final[deque[WordWithin]] = deque()
        """In their order."""
        self.again_ms: int | None = None
        """When to go on with these, because there were too many for one step."""
        self._asked: Final[dict[int, _OpenAsk]] = {}
        """Those of services, and works that are wanted, by number."""
        self._works: Final[dict[int, str]] = {}
        """The works that are under way, and whose they are."""
        self._last = 0

    # -- what services want of each other

    def ask(self, asker: str, what: AskedOfService) -> None:
        """A service asks one of its node."""
        self._last -= 1
        count = sum(asked.asker == asker and bool(asked.service) for asked in self._asked.values())
        if count >= ASKS_MAX:
            self._refuse(asker, what.purpose, f"{count} requests of the service {asker} to others of its node wait")
            return
        self._asked[self._last] = _OpenAsk(asker, what.service, what.purpose)
        asked = ServiceAsked(what.service, self._last, what.request, crc32(asker.encode()) & 0xFFFF)
        self.following.append(WordWithin(what.service, asked, self._last))

    def go_on(self, asker: str, what: AskContinued) -> None:
        """A service has taken an answer to what it asked for a purpose, and can take more."""
        for id in self._meant(lambda asked: asked.asker == asker and asked.purpose == what.purpose):
            if service := self._asked[id].service:
                self.following.append(WordWithin(service, ServiceContinued(service, id), id))

    def withdraw(self, asker: str, what: AskWithdrawn) -> None:
        """A service waits no longer for what it asked for a purpose."""
        self._forget(lambda asked: asked.asker == asker and asked.purpose == what.purpose)
        self._keep(lambda one: not (one.service == asker and _is_reply(one.what, what.purpose)))

    def gone(self, asker: str) -> None:
        """A service is off: it waits for nothing."""
        self._forget(lambda asked: asked.asker == asker)

    def clear(self) -> None:
        """All services begin anew, and know nothing of what they asked before."""
        for id in self._asked:
            self.open.pop(id, None)
        self._asked.clear()
        self.following.clear()
        self.again_ms = None

    # -- what they want done

    def work(self, asker: str, what: WorkWanted) -> list[Work]:
        """A service wants something done; none when too much is under way."""
        self._last -= 1
        count = sum(service == asker for service in self._works.values())
        if count >= WORKS_MAX:
            self._refuse(asker, what.purpose, f"{count} works of the service {asker} are under way")
            return []
        self._works[self._last], self._asked[self._last] = asker, _OpenAsk(asker, "", what.purpose)
        return [Work(self._last, asker, what.job)]

    def worked(self, done: WorkDone) -> None:
        """A work is over."""
        self._works.pop(done.id, None)
        if (asked := self._asked.pop(done.id, None)) is not None:
            self.following.append(WordWithin(asked.asker, Replied(asked.purpose, done.result), done.id))

    # -- what they are told

    def answered(self, answer: Answer) -> None:
        """A service answers what another one asked."""
        asked = self._asked.get(answer.id)
        if asked is not None:
            reply = Replied(asked.purpose, answer.result, is_last=answer.is_last)
            self.following.append(WordWithin(asked.asker, reply, answer.id))
            if answer.is_last:
                del self._asked[answer.id]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        told = {id for _, what, id in self.following if isinstance(what, ServiceAsked)}
        begun = self.open.keys() | told | self._works.keys()
        must(self._asked.keys() <= begun, "whatever a service waits for is asked, or will be")

    # -- inside

    def _refuse(self, asker: str, purpose: object, why: str) -> None:
        error = BusyError(f"{why} already: try again later")
        self.following.append(WordWithin(asker, Replied(purpose, error), self._last))

    def _meant(self, is_meant: Callable[[_OpenAsk], bool]) -> list[int]:
        return [id for id, asked in self._asked.items() if is_meant(asked)]

    def _forget(self, is_meant: Callable[[_OpenAsk], bool]) -> None:
        gone = {id: self._asked.pop(id).service for id in self._meant(is_meant)}
        self._keep(lambda one: one.id not in gone)
        for id, service in gone.items():
            if id in self.open:  # else it was not told yet that it is asked
                self.following.append(WordWithin(service, ServiceWithdrawn(service, id), id))

    def _keep(self, is_kept: Callable[[WordWithin], bool]) -> None:
        kept = [one for one in self.following if is_kept(one)]
        self.following.clear()
        self.following.extend(kept)


def _is_reply(what: OwnInput, purpose: object) -> bool:
    return isinstance(what, Replied) and what.purpose == purpose
