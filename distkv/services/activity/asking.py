"""What a conversation wants to know, asked of the services of the node.

Knows: which request it is, and which are not answered.  Does not know what follows from an answer
(`core.activity.conversation`).

Invariant: when the connection has ended nothing of it waits at a service any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from distkv.core.accounts.requests import ACCOUNTS, Check, Register
from distkv.core.activity.conversation import ActivityTalk, Checking, Entering, Registering, Sending, TalkEffect
from distkv.core.activity.requests import LoggedIn, Login, MoveOn, SendActivity, Taken
from distkv.core.activity.settings import ACTIVITY
from distkv.core.ready import ServiceResult
from distkv.engine.driver import Driver
from distkv.engine.turn_work import SERVICE_STEP
from distkv.errors import DistkvError, InternalError
from distkv.wire.services import ServiceRequest


class TalkQuestions:
    """Those of one connection."""

    def __init__(
        self, driver: Driver, talk: ActivityTalk, told: Callable[[list[TalkEffect]], object], source: int
    ) -> None:
        """`told` hears what follows from an answer. `source`: from where the client comes, as a number."""
        self._driver: Final = driver
        self._talk: Final = talk
        self._told: Final = told
        self._source: Final = source
        self._client = 0
        """The number of the login."""
        self._open: Final = set[int]()

    def ask(self, what: Registering | Checking | Entering | Sending) -> None:
        """Ask it; the answer may come before this returns."""
        match what:
            case Registering(username, secret):
                register = Register(0, username, secret, self._source)
                self._ask(ACCOUNTS, register, lambda why: self._talk.registered(_error(why)))
            case Checking(username, secret):
                check = Check(0, username, secret, self._source)
                self._ask(ACCOUNTS, check, lambda why: self._talk.checked(_error(why)))
            case Entering(username, resume, client):
                self._client = self._ask(ACTIVITY, Login(0, username, resume, client, self._source), self._entered)
            case Sending(activities):
                self._driver.work.done += len(activities)
                self._ask(ACTIVITY, SendActivity(0, self._client, activities), self._taken)
            case _:
                assert_never(what)

    def end(self) -> None:
        """The connection has ended."""
        found = [*self._open]
        self._open.clear()
        for id in found:
            self._driver.services.withdraw(id)

    # -- inside

    def _ask(self, service: str, request: ServiceRequest, follows: Callable[[ServiceResult], list[TalkEffect]]) -> int:
        """Returns the number of the request."""
        id, is_over = 0, False

        def answered(result: ServiceResult) -> None:
            nonlocal is_over
            if not isinstance(result, LoggedIn | MoveOn):
                is_over = True
                self._open.discard(id)
            self._told(follows(result))

        self._driver.work.done += SERVICE_STEP
        try:
            id = self._driver.services.ask(service, request, answered)
        except DistkvError as error:
            self._told(follows(error))
            return 0
        if not is_over:
            self._open.add(id)
        return id

    def _entered(self, result: ServiceResult) -> list[TalkEffect]:
        if isinstance(result, LoggedIn):
            return self._talk.entered(result.at, result.client, result.missed)
        if isinstance(result, MoveOn):
            return self._talk.moved(result.host, result.port, result.resume)
        return self._talk.refused(_error(result) or InternalError("the service activity answered nonsense"))

    def _taken(self, result: ServiceResult) -> list[TalkEffect]:
        if isinstance(result, Taken):
            return self._talk.taken(result.origin, result.first, result.last)
        return self._talk.not_taken(_error(result) or InternalError("the service activity answered nonsense"))


def _error(result: ServiceResult) -> DistkvError | None:
    return result if isinstance(result, DistkvError) else None
