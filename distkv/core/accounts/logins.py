"""Who may log in: secrets that are checked against accounts.

Knows: which checks wait for what.  Does not know what a client may do then.

An account that is sure here is believed. For any other name the token servers are asked: a majority of them knows of
each account that was made. If their entry is not sure, and the secret is right, it is settled first.

Invariant: each check is answered once. At most so many wait as are allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hmac import compare_digest
from typing import Final

import attrs

from distkv.core.accounts.changes import AccountChanges, ChangeEnded, ChangeKind
from distkv.core.accounts.crowding import crowding
from distkv.core.accounts.entries import AccountEntries
from distkv.core.accounts.hash_queue import HashQueue
from distkv.core.accounts.inquiries import INQUIRIES_MAX, Inquiries
from distkv.core.accounts.requests import Check, SecretChecked
from distkv.core.accounts.right_secrets import RightSecrets
from distkv.core.ground.alarms import earliest
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import BusyError, RequestError
from distkv.model.invariant import must
from distkv.wire.account_entries import AccountEntry, SecretHash
from distkv.wire.account_errors import NoMajorityError, WrongSecretError

LOOKING_MAX: Final = INQUIRIES_MAX
"""About so many names the token servers are asked, less one: so there is always room for one more."""


@attrs.frozen
class SecretHashed:
    """The purpose of a hash that checks need: all who try this secret for this account from one host wait for the same
    one."""

    digest: bytes
    source: int = 0


@attrs.define(eq=False)
class _OpenLogin:
    id: int
    username: str
    secret: bytes = attrs.field(repr=False)
    until_ms: int
    source: int
    entry: AccountEntry | None = None
    """Against which it is checked."""
    waits_for: SecretHashed = SecretHashed(b"")
    """The hash."""


class Logins:
    """Those of one node."""

    def __init__(
        self, entries: AccountEntries, changes: AccountChanges, queue: HashQueue, right: RightSecrets,
        waiting_max: int, look_ms: int,
    ) -> None:  # fmt: skip
        self.counts: Final = Counter[str]()
        """Of the answers, by their code, or `right`."""
        self._entries: Final = entries
        self._changes: Final = changes
        self._queue: Final = queue
        self._right: Final = right
        self._waiting_max: Final = waiting_max
        self._look_ms: Final = look_ms
        self._inquiries: Final = Inquiries("logins")
        self._open: Final = dict[int, _OpenLogin]()
        self._looking: Final = dict[str, tuple[int, set[int]]]()
        """By the name: the inquiry, and who waits for it."""
        self._settling: Final = dict[str, tuple[int, set[int]]]()
        """By the name: the change, and who waits for it."""
        self._hashing: Final = dict[SecretHashed, set[int]]()
        """Who waits for each hash; a hash that is under way is here also when nobody does any more."""

    def __len__(self) -> int:
        return len(self._open)

    def asked(self, turn: ServiceTurn, id: int, check: Check) -> None:
        """Somebody logs in."""
        until_ms = turn.boot_ms + self._look_ms
        login = self._open[id] = _OpenLogin(id, check.username, check.secret, until_ms, check.source)
        known = self._entries.known(check.username)
        if known is not None and known.sure:
            self._compare(turn, login, known)
        else:
            self._look(turn, login)
        if len(self._open) > self._waiting_max:
            self._crowd_out(turn, self._open)

    def withdrawn(self, turn: ServiceTurn, id: int) -> None:
        """Nobody waits for a check any more."""
        if id in self._open:
            self._forget(turn, self._open[id])

    def hashed(self, turn: ServiceTurn, purpose: SecretHashed, reply: object) -> None:
        """The hash of a secret came."""
        for login in [self._open[id] for id in sorted(self._hashing.pop(purpose, ()))]:
            kept = None if login.entry is None else login.entry.secret
            if isinstance(reply, RequestError):
                self._answer(turn, login, reply)
            elif kept is not None and isinstance(reply, bytes) and compare_digest(reply, kept.hash):
                self._right.add(kept, login.secret)
                self._let_in(turn, login)
            else:
                self._answer(turn, login, _wrong())

    def step(self, turn: ServiceTurn, what: Replied) -> bool:
        """Something was answered; whether it was for a login."""
        inquiry = self._inquiries.replied(turn, what)
        if inquiry is None:
            return False
        username = self._inquiries.of(inquiry).username
        opinions = self._inquiries.of(inquiry).opinions
        if opinions is not None and opinions.is_majority:
            best = opinions.best(self._entries.known(username))
            for login in self._looked(turn, username):
                if best is None or best.secret is None:
                    self._answer(turn, login, _wrong())
                else:
                    self._compare(turn, login, best)
        elif (error := self._inquiries.of(inquiry).error) is not None:
            for login in self._looked(turn, username):
                self._answer(turn, login, _unknown(str(error)))
        return True

    def settled(self, turn: ServiceTurn, ended: ChangeEnded) -> None:
        """A change is over; it may be one for which logins wait."""
        change, ids = self._settling.get(ended.username, (0, set[int]()))
        if change != ended.id:
            return
        del self._settling[ended.username]
        for login in [self._open[id] for id in sorted(ids)]:
            was = None if login.entry is None else login.entry.secret
            if isinstance(ended.result, RequestError):
                self._answer(turn, login, ended.result)
            elif ended.result.secret is not None and ended.result.secret == was:
                self._answer(turn, login, SecretChecked())
            else:
                self._answer(turn, login, _wrong())

    def pass_time(self, turn: ServiceTurn) -> None:
        """After each input."""
        self._inquiries.woken(turn)
        for username in list(self._looking):
            late = [id for id in self._looking[username][1] if self._open[id].until_ms <= turn.boot_ms]
            for id in late:
                self._answer(turn, self._open[id], _unknown("they did not answer in time"))

    def wake_ms(self) -> int | None:
        """When `pass_time` has something to do."""
        waiting = [self._open[id].until_ms for _, ids in self._looking.values() for id in ids]
        return earliest(self._inquiries.wake_ms(), min(waiting, default=None))

    # -- inside

    def _look(self, turn: ServiceTurn, login: _OpenLogin) -> None:
        """The token servers know whether there is such an account."""
        if login.username not in self._looking:
            self._looking[login.username] = self._inquiries.begin(turn, login.username), set()
        self._looking[login.username][1].add(login.id)
        while len(ids := self._looking_ids()) > self._waiting_max // 2 or len(self._looking) >= LOOKING_MAX:
            self._crowd_out(turn, ids)

    def _looking_ids(self) -> list[int]:
        """Who waits for what the servers say, in the order in which they came."""
        return sorted(id for _, ids in self._looking.values() for id in ids)

    def _crowd_out(self, turn: ServiceTurn, ids: Iterable[int]) -> None:
        """Too many wait: of the source that has most of these, the one that came last is refused."""
        login = self._open[crowding({id: self._open[id].source for id in ids})]
        self._answer(turn, login, BusyError(f"{self._waiting_max} logins wait on this node: try again later"))

    def _looked(self, turn: ServiceTurn, username: str) -> list[_OpenLogin]:
        """Who waited for what the servers say; the inquiry is over."""
        inquiry, ids = self._looking.pop(username)
        self._inquiries.end(turn, inquiry)
        return [self._open[id] for id in sorted(ids)]

    def _compare(self, turn: ServiceTurn, login: _OpenLogin, entry: AccountEntry) -> None:
        login.entry, kept = entry, entry.secret
        if kept is None or not kept.cost:
            self._answer(turn, login, _wrong())
        elif self._right.has(kept, login.secret):
            self._right.add(kept, login.secret)
            self._let_in(turn, login)
        else:
            self._hash(turn, login, kept)

    def _hash(self, turn: ServiceTurn, login: _OpenLogin, kept: SecretHash) -> None:
        purpose = SecretHashed(self._right.digest(kept, login.secret), login.source)
        if purpose not in self._hashing:
            try:
                self._queue.add(turn, login.source, login.username, purpose, login.secret, kept.salt, kept.cost)
            except BusyError as error:
                self._answer(turn, login, error)
                return
            self._hashing[purpose] = set()
        self._hashing[purpose].add(login.id)
        login.waits_for = purpose

    def _let_in(self, turn: ServiceTurn, login: _OpenLogin) -> None:
        """The secret is that of the entry; if it is sure, that is all."""
        assert login.entry is not None
        if login.entry.sure:
            self._answer(turn, login, SecretChecked())
            return
        if login.username not in self._settling:
            try:
                change = self._changes.begin(turn, ChangeKind.SETTLE, login.username, source=login.source)
            except BusyError as error:
                self._answer(turn, login, error)
                return
            self._settling[login.username] = change, set()
        self._settling[login.username][1].add(login.id)

    def _answer(self, turn: ServiceTurn, login: _OpenLogin, result: SecretChecked | RequestError) -> None:
        self.counts[result.code if isinstance(result, RequestError) else "right"] += 1
        turn.answer(login.id, result)
        self._forget(turn, login)

    def _forget(self, turn: ServiceTurn, login: _OpenLogin) -> None:
        del self._open[login.id]
        purpose = login.waits_for
        if purpose in self._hashing:
            self._hashing[purpose].discard(login.id)
            if not self._hashing[purpose] and self._queue.drop(purpose):
                del self._hashing[purpose]
        if login.username in self._settling:
            self._settling[login.username][1].discard(login.id)
        inquiry, ids = self._looking.get(login.username, (0, set[int]()))
        ids.discard(login.id)
        if inquiry and not ids:
            self._inquiries.end(turn, inquiry)
            del self._looking[login.username]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._inquiries.check()
        must(len(self._open) <= self._waiting_max, "few logins wait")
        waiting = [id for _, ids in (*self._looking.values(), *self._settling.values()) for id in ids]
        waiting += [id for ids in self._hashing.values() for id in ids]
        must(len(waiting) == len(set(waiting)) and set(waiting) <= self._open.keys(), "a login waits for one thing")


def _wrong() -> WrongSecretError:
    return WrongSecretError("there is no such user with this secret")


def _unknown(why: str) -> NoMajorityError:
    return NoMajorityError(f"this user is not known here, and no majority of the token servers can be asked: {why}")
