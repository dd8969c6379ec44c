"""One token at the server that serves it: who holds it, who waits, its data.

Knows: the rule by which the next one gets it.  Does not know the time's passing, disks, calls' answers, nor whether the
server may grant at all (`grants`).

Invariant: an exclusive holder is alone. The queue is in the order of the tickets. Nobody is next while somebody from
whom the token was taken may not know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

import attrs

from distkv.core.ground.alarms import earliest
from distkv.core.ground.calls import CallKey
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.errors import BusyError, RequestError
from distkv.model.event import NodeName
from distkv.model.fence import NO_GRANT, GrantNumber
from distkv.model.invariant import must
from distkv.wire.declared import evolve
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.token_errors import NotHeldError
from distkv.wire.token_fields import Ticket
from distkv.wire.token_replies import TokenGranted, TokenItem
from distkv.wire.token_requests import TokenAcquire, TokenData
from distkv.wire.token_slots import QueuedSession, TokenRecord

_PLACE: Final = attrgetter("ticket", "session")


@attrs.define(slots=True)
class WaitingSession:
    """A session in the queue."""

    session: str
    ticket: Ticket
    is_shared: bool
    call: CallKey | None
    """Who is to be told; None: nobody just now, the place is kept for a while."""
    is_try: bool = False
    data: bytes | None = None
    keeps_data: bool = False
    before: GrantNumber | None = None
    """With which the session held the token, and gave it back."""
    until_ms: int = 0
    """With a call: when it is told that it waited in vain. Without: when the place is lost."""

    def asks(self, call: CallKey, request: TokenAcquire) -> None:
        """It asks (again)."""
        self.call, self.is_shared, self.is_try = call, request.is_shared, request.wait_s is None
        self.data, self.keeps_data, self.before = request.data, request.keeps_data, request.before

    def leave(self, until_ms: int) -> None:
        """The call is over; the place is kept until then."""
        self.call, self.until_ms, self.is_try = None, until_ms, False


@attrs.define(slots=True)
class ReplacedData:
    """What the data of a grant took the place of."""

    data: bytes | None
    keeps_data: bool
    write_before: int
    """By which write that was there."""
    write: int
    """Which write the grant's is."""


@attrs.define(slots=True, eq=False)
class Grant:
    """A session holds the token."""

    holder: TokenHolder
    call: CallKey | None = None
    """Which was answered with it, if nobody asked about it since."""
    replaced: ReplacedData | None = None
    """If it brought data, until it is known that its client heard of it."""
    is_doubted: bool = False
    """Whether the leader was asked if its session counts on it, and it was told to nobody since."""

    @property
    def number(self) -> GrantNumber:
        return self.holder.number


class ServedToken:
    """All times are milliseconds."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.grants: Final = dict[str, Grant]()
        """By session: who holds it."""
        self.lost: Final = dict[str, TokenHolder]()
        """From whom it was taken, and who may not know."""
        self.queue: Final = dict[str, WaitingSession]()
        """By session."""
        self.data: bytes | None = None
        self.keeps_data = False
        """Whether the data stays when nobody holds the token."""
        self._write = self._writes = 0
        """Which write the data is of, and how many there were."""
        self.is_kept = False
        """Whether the disk has something of it, or will when the last step is there."""
        self.free_ms = 0
        """Until then nobody gets it."""
        self.has_alarm = False
        """Whether it is looked at again because time passes."""

    # -- reading

    @property
    def holders(self) -> dict[str, TokenHolder]:
        """By session."""
        return {session: one.holder for session, one in self.grants.items()}

    @property
    def is_held(self) -> bool:
        return bool(self.grants or self.lost)

    @property
    def is_exclusive(self) -> bool:
        return any(not one.holder.is_shared for one in self.grants.values())

    def is_needed(self, now_ms: int) -> bool:
        """Whether something would be forgotten with it."""
        return bool(self.grants or self.lost or self.queue) or self.data is not None or now_ms < self.free_ms

    def first(self) -> WaitingSession | None:
        """Who is next in the queue."""
        return min(self.queue.values(), key=_PLACE, default=None)

    def may_have(self, waiter: WaitingSession, now_ms: int) -> bool:
        """Whether it is this one's turn, if it is the first."""
        if self.lost or now_ms < self.free_ms:
            return False
        return not self.grants or (waiter.is_shared and not self.is_exclusive)

    def due_ms(self, now_ms: int) -> int | None:
        """When a wait or a delay is over; None: nothing waits."""
        free_ms = self.free_ms if now_ms < self.free_ms else None
        return earliest(free_ms, *[one.until_ms for one in self.queue.values()]) if self.queue else free_ms

    def refusal(self, limits: ServingSettings, tokens: int, waiters: int) -> BusyError | None:
        """Why nobody may join the queue, with so many tokens at the server and so many who wait there; None: who wants
        to may."""
        if tokens > limits.tokens_max:
            return BusyError(f"the server has {limits.tokens_max} tokens: release some, or raise limits.tokens")
        if len(self.queue) >= limits.waiters_max:
            text = f"{limits.waiters_max} sessions wait for {self.name!r}: ask again later"
            return BusyError(f"{text}, or raise limits.token_waiters")
        if waiters >= limits.all_waiters_max:
            return BusyError(f"{limits.all_waiters_max} sessions wait at this server: ask again later")
        return None

    def sessions(self) -> Iterator[str]:
        """All that have to do with it."""
        yield from self.grants
        yield from self.lost
        yield from self.queue

    def calls(self) -> Iterator[tuple[CallKey, str]]:
        """Those that wait, or whose grant nobody asked about since, with their sessions."""
        for session, grant in self.grants.items():
            if grant.call is not None:
                yield grant.call, session
        for place in self.queue.values():
            if place.call is not None:
                yield place.call, place.session

    def holders_up_to(self, number: GrantNumber | None) -> list[TokenHolder]:
        """Those whose grant is not above this one; None: all."""
        return [one.holder for one in self.grants.values() if number is None or one.number <= number]

    def item(self, server: NodeName) -> TokenItem:
        """What there is to see."""
        holders = tuple([one.holder.shown for one in self.grants.values()])
        return TokenItem(self.name, server, holders, len(self.queue), self.data, self.keeps_data)

    def granted(self, holder: TokenHolder, changed: int) -> TokenGranted:
        """What its holder is told."""
        epoch, counter = holder.epoch, holder.counter
        return TokenGranted(self.name, epoch, counter, changed, holder.is_shared, self.data, self.keeps_data)

    def record(self) -> TokenRecord:
        """As it is kept on the disk."""
        holders, lost = tuple([one.holder for one in self.grants.values()]), tuple(self.lost.values())
        return TokenRecord(self.name, holders, self.data, lost=lost, keeps_data=self.keeps_data)

    def handed(self, now_ms: int) -> TokenRecord:
        """As it is handed over."""
        waiters = sorted(self.queue.values(), key=lambda one: one.ticket)
        queue = tuple([QueuedSession(one.session, *one.ticket, one.is_shared) for one in waiters])
        return evolve(self.record(), queue=queue, free_in_ms=max(0, self.free_ms - now_ms))

    # -- changing

    def install(self, record: TokenRecord, now_ms: int, until_ms: int) -> None:
        """What a disk or another server knew of it; the places of the queue are kept until then."""
        self.is_kept = True
        for holder in record.holders:
            self.give(holder)
        self.lost.update({one.session: one for one in record.lost})
        self.set_found(record.data, keeps=record.keeps_data)
        self.free_ms = max(self.free_ms, now_ms + record.free_in_ms)
        for one in record.queue:
            place = self.queue.get(one.session)
            if place is None:
                place = WaitingSession(one.session, one.ticket, one.is_shared, None, until_ms=until_ms)
                self.queue[one.session] = place
            place.ticket = min(place.ticket, one.ticket)

    def set_found(self, data: bytes | None, *, keeps: bool) -> None:
        """Others knew this data; None: they may know less than is known here."""
        if data is not None:
            self.data, self.keeps_data = data, keeps

    def give(self, holder: TokenHolder) -> Grant:
        """It holds it from now on, or with another fence."""
        grant = self.grants.get(holder.session)
        if grant is None:
            grant = self.grants[holder.session] = Grant(holder)
        grant.holder = holder
        return grant

    def has_given_back(self, place: WaitingSession) -> bool:
        """Whether the session that waits gave back what it holds here, and a crash undid that."""
        return self.grants[place.session].number <= (place.before or NO_GRANT)

    def refusal_of(self, request: TokenData) -> RequestError | None:
        """Why the data is not to be changed; None: it is."""
        grant = self.grants.get(request.session)
        if grant is None or request.fence not in (None, grant.number):
            return NotHeldError(f"the session does not hold {self.name!r}: only a holder sets its data")
        if 0 < request.change < grant.holder.change:
            return RequestError(f"the session has made a later change of the data of {self.name!r}")
        return None

    def set_data(self, request: TokenData) -> bool:
        """Change the data, unless this change was made already; whether there is something to be kept."""
        grant = self.grants[request.session]
        change = grant.holder.change
        if 0 < request.change == change:
            return False
        self._note_write()
        if not request.change and (request.data, request.keeps_data) == (self.data, self.keeps_data):
            return False
        grant.holder = evolve(grant.holder, change=max(request.change, change))
        self.data, self.keeps_data = request.data, request.keeps_data
        return True

    def grant_data(self, grant: Grant, data: bytes, *, keeps: bool) -> None:
        """The data that a grant brings."""
        before = self._write
        self._note_write()
        grant.replaced = ReplacedData(self.data, self.keeps_data, before, self._write)
        self.data, self.keeps_data = data, keeps

    def settled(self) -> TokenRecord | None:
        """After a change: as it is kept on the disk; None: nothing is. Data ends with the last holder, unless who wrote
        it said that it is to stay (docs/protocol, TOKEN-20)."""
        if not self.grants and not self.keeps_data:
            self.data = None
        return self.record() if self.grants or self.lost or self.data is not None else None

    def undo_data(self, grant: Grant) -> None:
        """Nobody heard of the grant, so it brought nothing. Who shares the token may have written data since, perhaps
        by a grant of which nobody heard, either."""
        old, grant.replaced = grant.replaced, None
        if old is None:
            return
        if self._write == old.write:
            self.data, self.keeps_data, self._write = old.data, old.keeps_data, old.write_before
        for later in [one.replaced for one in self.grants.values()]:
            if later is not None and later.write_before == old.write:
                later.data, later.keeps_data, later.write_before = old.data, old.keeps_data, old.write_before

    def _note_write(self) -> None:
        self._writes += 1
        self._write = self._writes

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(not self.is_exclusive or len(self.grants) == 1, f"an exclusive holder of {self.name!r} is alone")
        must(self.grants.keys().isdisjoint(self.lost), "whoever lost it does not hold it")
        must(all(session == one.holder.session for session, one in self.grants.items()), "each grant is its session's")
        must(all(session == one.session for session, one in self.queue.items()), "each place is known by its session")
