"""Who waits for a token since when, and whether one gets it who came later.

Knows: what clients ask at all nodes, which tickets they are told, and who is in the queues of the servers.  Does not
know why a queue is as it is, nor by which tickets.  What it finds wrong is wrong; it does not find everything.

Invariant: of two sessions that wait one is said to be first only if it is by every rule. Its time counts from the last
moment that could be meant, that of the other one from the first: a request of before may come late and bring a place.

A session has a place at a server while it is in the queue there; queues are in memory. Whoever was told a ticket has a
place since then, at whatever server he waits, as long as he asks with tickets. One that has waited at another server,
too, may have a place from there, and is said to have come after nobody.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import attrs

from distkv.core.tokens.serving.served_token import ServedToken
from distkv.model.fence import GrantNumber
from distkv.wire.token_fields import Ticket

NEVER_MS: Final = -1e18


@attrs.define(slots=True)
class WaitSeen:
    """A session that wants a token, since it had it the last time."""

    late_ms: float
    first_ms: float | None = None
    """When it asked, or was in a queue, the first time."""
    open: dict[Hashable, Ticket | None] = attrs.field(factory=dict)
    """Its requests that are under way, with their tickets."""
    bare_ms: float = NEVER_MS
    """When the last request without a ticket ended."""
    tickets: dict[Ticket, float] = attrs.field(factory=dict)
    """Those that it was told, and when: since then it asked with such tickets only."""
    lowest: Ticket | None = None
    """Of all that it was told."""
    old: set[Hashable] = attrs.field(factory=set)
    """Requests of before, with tickets of before, that are under way still."""
    old_ms: float = NEVER_MS
    """When the last one of these ended."""
    is_odd: bool = False
    """Whether it may have a place by a ticket of before."""
    servers: dict[str, int] = attrs.field(factory=dict)
    """In whose queues it was, and the change of servers by which that server went when it joined."""

    def asked(self, at_ms: float, key: Hashable, ticket: Ticket | None) -> None:
        self.first_ms = at_ms if self.first_ms is None else self.first_ms
        self.open[key] = ticket
        self.is_odd |= ticket is not None and ticket not in self.tickets
        if ticket is None or ticket not in self.tickets:
            self.tickets.clear()
        else:
            self.tickets = {one: ms for one, ms in self.tickets.items() if one >= ticket}

    def joined(self, at_ms: float, server: str, changed: int) -> None:
        self.first_ms = at_ms if self.first_ms is None else self.first_ms
        self.servers.setdefault(server, changed)
        self.is_odd |= bool(self.old) or at_ms <= self.old_ms + self.late_ms

    def told(self, at_ms: float, key: Hashable, ticket: Ticket) -> None:
        if key in self.old:
            return
        self.tickets.setdefault(ticket, at_ms)
        self.lowest = ticket if self.lowest is None else min(self.lowest, ticket)

    def ended(self, at_ms: float, key: Hashable) -> None:
        if self.open.pop(key, ()) is None:
            self.bare_ms = at_ms
        if key in self.old:
            self.old.discard(key)
            self.old_ms = at_ms

    def keeps(self, at_ms: float) -> bool:
        """Whether no request without a ticket can have brought it its place."""
        return None not in self.open.values() and at_ms > self.bare_ms + self.late_ms

    def anew(self) -> WaitSeen:
        """It was granted. What is still under way may bring it a place again."""
        old = self.old | {key for key, ticket in self.open.items() if ticket is not None}
        return WaitSeen(self.late_ms, open=self.open, bare_ms=self.bare_ms, old=old, old_ms=self.old_ms)


@attrs.define(slots=True)
class QueueSeen:
    """That of a token at one start of a server."""

    since: dict[str, tuple[float, int]] = attrs.field(factory=dict)
    """Of each session when it joined, and the change of servers by which the server went then."""


class Turns:
    """All times are milliseconds."""

    def __init__(self, late_ms: float) -> None:
        """`late_ms`: so long messages are under way at the most."""
        self._late_ms: Final = late_ms
        self._waiting: Final = dict[tuple[str, str], WaitSeen]()
        """By session and token."""
        self._keys: Final = dict[Hashable, tuple[str, str]]()
        self._queues: Final = dict[str, dict[str, QueueSeen]]()
        """By server and token."""
        self._grants: Final = dict[str, set[GrantNumber]]()
        """All that were granted, by token."""
        self.compared = 0
        """How often a grant left somebody waiting who came later."""

    # -- clients

    def asked(self, at_ms: float, key: Hashable, session: str, token: str, ticket: Ticket | None) -> None:
        """A request has come to a node."""
        self._keys[key] = session, token
        self._of(session, token).asked(at_ms, key, ticket)

    def told(self, at_ms: float, key: Hashable, ticket: Ticket | None) -> None:
        """It is answered, with a ticket or without."""
        if key in self._keys and ticket is not None:
            self._of(*self._keys[key]).told(at_ms, key, ticket)
        self.ended(at_ms, key)

    def ended(self, at_ms: float, key: Hashable) -> None:
        """It is answered, or nobody waits for the answer, or its node has ended."""
        found = self._keys.pop(key, None)
        if found is not None:
            self._of(*found).ended(at_ms, key)

    # -- servers

    def stopped(self, server: str) -> None:
        """Its process has ended, and forgot all queues."""
        self._queues.pop(server, None)

    def looked(self, at_ms: float, server: str, changed: int, tokens: Iterable[ServedToken]) -> str | None:
        """What a server has in its memory after a step, going by this change of servers; what is wrong with that."""
        found, queues = None, self._queues.setdefault(server, {})
        for token in tokens:
            queue = queues.setdefault(token.name, QueueSeen())
            for session in [session for session in queue.since if session not in token.queue]:
                del queue.since[session]
            grants = self._grants.setdefault(token.name, set())
            for holder in token.holders.values():
                number = holder.number
                if number not in grants:
                    grants.add(number)
                    mine = self._of(holder.session, token.name)
                    mine.joined(at_ms, server, changed)
                    found = found or self._passed(at_ms, server, token.name, holder.session)
                    self._waiting[holder.session, token.name] = mine.anew()
            for session in token.queue:
                if session not in queue.since:
                    queue.since[session] = at_ms, changed
                    self._of(session, token.name).joined(at_ms, server, changed)
        return found

    # -- inside

    def _of(self, session: str, token: str) -> WaitSeen:
        found = self._waiting.get((session, token))
        if found is None:
            found = self._waiting[session, token] = WaitSeen(self._late_ms)
        return found

    def _passed(self, at_ms: float, server: str, token: str, session: str) -> str | None:
        """Whom the session passed that is granted the token."""
        mine = self._of(session, token)
        if mine.is_odd or mine.first_ms is None or mine.servers.keys() != {server}:
            return None
        for other, (since_ms, changed) in self._queues[server][token].since.items():
            theirs = self._of(other, token)
            is_later = mine.lowest is None or mine.lowest[0] >= changed
            if since_ms < mine.first_ms and is_later:
                text = f"{other} is in the queue of {server} since {since_ms:.0f} ms"
                return _words(at_ms, session, token, mine, text)
            self.compared += since_ms > mine.first_ms
            for ticket, told_ms in theirs.tickets.items():
                if told_ms < mine.first_ms and theirs.keeps(at_ms) and self._is_below(ticket, theirs, mine, server):
                    text = f"{other}, who waits at {server}, has the ticket {ticket} since {told_ms:.0f} ms"
                    return _words(at_ms, session, token, mine, text)
        return None

    @staticmethod
    def _is_below(ticket: Ticket, theirs: WaitSeen, mine: WaitSeen, server: str) -> bool:
        """Whether one ticket is surely from before the one that the other got at this server."""
        changed = mine.servers[server]
        is_of_before = ticket[0] < changed or (ticket[0] == changed and theirs.servers.keys() == {server})
        return is_of_before and (mine.lowest is None or ticket < mine.lowest)


def _words(at_ms: float, session: str, token: str, mine: WaitSeen, passed: str) -> str:
    return f"{session} got {token} at {at_ms:.0f} ms, wants it since {mine.first_ms:.0f} ms, but {passed}"
