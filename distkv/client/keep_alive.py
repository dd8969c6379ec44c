"""How long a session lives, by its client's own clock, and when the next keep-alive is due.

Knows: what was sent when, what was confirmed, and versions.  Does not know tokens (`claims`), nor what is asked besides
(`holding`).

Invariant: the session is over ttl x (1 - drift) after the last confirmed keep-alive was *sent*, whenever its answer
came. A version that was named once is never gone below.
"""

from __future__ import annotations

from math import floor
from typing import Final

import attrs

from distkv.client.claims import AGAIN_MS
from distkv.errors import NotReadyError
from distkv.wire.token_replies import SessionKept, SessionOpened

OPEN_MS: Final = 5000
"""After so long without an answer another node is asked to open the session."""


@attrs.define(slots=True)
class KeepAlive:
    """All times are milliseconds of the client's clock."""

    drift: float
    grace_ms: int = 0
    """So long before its end whoever works under the session stops: what is left before that is the time that counts.
    """
    session: str = ""
    """Empty: it is not open yet."""
    ttl_ms: int = 0
    until_ms: int = 0
    version: int = 0
    """The newest that was heard."""
    named: int = 0
    """The newest that a keep-alive named."""
    call: int | None = None
    """The request that is under way: it opens the session, or keeps it."""
    turn: int = 0
    """Its number, above those of all before: also of another process that kept the session, by the clock."""
    answered: int = 0
    """The number of the last one whose answer was taken."""
    sent_ms: int = 0
    wait_ms: int = 0
    """How long the answer to it takes, without news.

    What was confirmed last may have been sent two such waits ago when a leader dies. Then it takes a lease and an
    election, a third of the ttl or more, until another one confirms; with a wait of ttl / 3 nothing would be left. And
    a client that slept has less time than that."""
    again_ms: int = 0
    """Not before this is it asked again."""
    refused_ms: int | None = None
    """When another node is to be asked, because this one serves nobody now."""
    _data_version: int = -1
    """The version for which the servers were told the data of what is held, over this connection."""

    def lives(self, now_ms: int) -> bool:
        """Whether what it holds may be counted on."""
        return bool(self.session) and now_ms < self.until_ms

    def stuck_ms(self) -> int | None:
        """When another node is to be asked, because this one does not answer, or serves nobody."""
        if self.refused_ms is not None:
            return self.refused_ms
        if self.call is None:
            return None
        return self.sent_ms + (self.wait_ms + self._sixth_ms if self.ttl_ms else OPEN_MS)

    def wake_ms(self) -> int | None:
        """When there is something to do because time passed."""
        moments = [self.until_ms] if self.session and self.ttl_ms else []
        stuck_ms = self.stuck_ms()
        moments.append(self.again_ms if stuck_ms is None else stuck_ms)
        return min(moments)

    # -- what happens

    def anew(self) -> KeepAlive:
        """Of another session, that is to be opened."""
        return KeepAlive(self.drift, self.grace_ms)

    def sent(self, call: int, now_ms: int) -> bool:
        """One is sent; whether it is to carry the data of what is held, which only a survey needs."""
        self.call, self.sent_ms, self.named = call, now_ms, max(self.named, self.version)
        self.turn = max(self.turn + 1, now_ms)
        self.wait_ms = max(0, min(self._sixth_ms, (self.until_ms - self.grace_ms - now_ms) // 2))
        with_data, self._data_version = self._data_version != self.version, self.version
        return with_data

    def opened(self, reply: SessionOpened) -> None:
        """The session is there."""
        self.session, self.version = reply.session, reply.version
        self._confirm(reply.ttl_ms)

    def kept(self, reply: SessionKept, now_ms: int, *, is_news: bool) -> None:
        """A keep-alive counts. Without news the next one goes at once, too: it waits at the node."""
        is_early = now_ms < self.sent_ms + self.wait_ms and reply.version <= self.named and not is_news
        self.version, self.answered = max(self.version, reply.version), self.turn
        self._confirm(reply.ttl_ms)
        self.again_ms = now_ms + (AGAIN_MS if is_early else 0)

    def failed(self, now_ms: int) -> None:
        """It could not be confirmed. Nor is it known whether a server was told what is held."""
        self.call, self.again_ms, self._data_version = None, now_ms + AGAIN_MS, -1

    def heard(self, result: object, now_ms: int) -> None:
        """The node answered a request of the session."""
        if isinstance(result, NotReadyError) and self.refused_ms is None:
            self.refused_ms = now_ms + AGAIN_MS

    def connection_lost(self) -> None:
        """What was under way is asked again, and by another node everything has to be learned anew."""
        self.call, self.again_ms, self.refused_ms, self._data_version = None, 0, None, -1

    # -- inside

    @property
    def _sixth_ms(self) -> int:
        return max(0, self.ttl_ms - self.grace_ms) // 6

    def _confirm(self, ttl_ms: int) -> None:
        self.call, self.ttl_ms = None, ttl_ms
        self.until_ms = max(self.until_ms, self.sent_ms + floor(ttl_ms * (1 - self.drift)))
