"""Finding out who serves: while clients wait, one server after another is asked, and each that knows of a later change.

Knows: whom it has asked, and when.  Does not know what comes of it (`known_servers`).

Invariant: no server is asked more often than every `poll_ms`; none is, while those that are known answer.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.tokens.known_servers import KnownServers
from distkv.core.tokens.questions import Questions
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.token_messages import WhereTokens


@attrs.define(slots=True, eq=False)
class Searching:
    """The purpose of such a question."""

    asked_ms: int
    number: int = 0


class ServerSearch:
    """All times are milliseconds."""

    def __init__(self, questions: Questions, servers: KnownServers, poll_ms: int) -> None:
        self._questions: Final = questions
        self._servers: Final = servers
        self.poll_ms: Final = poll_ms
        self._asked: Final = dict[NodeName, Searching]()
        """Who was asked, and has not answered."""
        self._turn = 0
        self.next_ms = -(2**62)
        """Before that it is not looked at again."""

    def look(self, now_ms: int) -> None:
        """Something is under way: ask the next server, if who serves may have changed."""
        if now_ms < self.next_ms:
            return
        self.next_ms = now_ms + self.poll_ms
        servers = self._servers
        if now_ms - servers.sure_ms < self.poll_ms and servers.changed:
            if not self._questions.is_anybody_silent(now_ms):
                return
        self._turn += 1
        names = servers.names
        self.ask(names[self._turn % len(names)], now_ms)

    def ask(self, name: NodeName, now_ms: int) -> None:
        """Ask this one: it may know more."""
        old = self._asked.get(name)
        if old is not None:
            if now_ms - old.asked_ms < self.poll_ms:
                return
            self._questions.cancel(name, old.number)
        found = self._asked[name] = Searching(now_ms)
        found.number = self._questions.ask(name, WhereTokens(), now_ms, found)

    def answered(self, name: NodeName, searching: Searching) -> None:
        """A server has answered."""
        if self._asked.get(name) is searching:
            del self._asked[name]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(one.number for one in self._asked.values()), "each that was asked has a question")
