"""The service of accounts on one node: one name, once, everywhere; and who may log in with which secret.

Knows: how changes and logins are put together.  Does not know how either goes, nor what a client may do then.

Nothing of it is kept but the entries in the store. When it begins anew, the token servers tell again what they have.

Invariant: whoever asks is answered once. No secret is in an answer, a note or what people are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, assert_never

import attrs

from distkv.core.accounts.changes import AccountChanges, ChangeEnded, ChangeKind
from distkv.core.accounts.entries import AccountEntries
from distkv.core.accounts.hash_queue import HashQueue, busy
from distkv.core.accounts.logins import Logins, SecretHashed
from distkv.core.accounts.requests import ANONYMOUS, Check, Register, Registered, check_form
from distkv.core.accounts.right_secrets import RightSecrets, drawn_bytes
from distkv.core.accounts.settings import AccountSettings
from distkv.core.ground.alarms import earliest
from distkv.core.ground.frames import Announced, Heard, Lacked
from distkv.core.ground.machine import (
    EntryChanged,
    NodesChanged,
    ServiceGround,
    ServiceInput,
    ServiceWoken,
    Setting,
)
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, NodesSilent, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import NodeTold, Rng, ServiceAsked, ServiceContinued, ServiceResult, ServiceWithdrawn
from distkv.errors import BadValueError, DecodeError, NotFoundError, RequestError, TooLargeError
from distkv.model.invariant import must
from distkv.wire.account_entries import QUESTIONS, SALT_BYTES, AccountAnswer, SecretHash
from distkv.wire.account_errors import NameTakenError
from distkv.wire.account_requests import AccountList, AccountRemove, AccountRemoved, AccountsListed
from distkv.wire.declared import pack


@attrs.frozen
class RegisteredHash:
    """The purpose of the hash of a secret that is to be registered."""

    id: int
    username: str
    salt: bytes
    source: int


class AccountMachine:
    """All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self, settings: AccountSettings, rng: Rng) -> None:
        self.settings: Final = settings
        self._rng: Final = rng
        self._entries: AccountEntries | None = None
        self._queue = HashQueue(settings.checks_max)
        self._changes: AccountChanges | None = None
        self._logins: Logins | None = None
        self._asked = dict[int, int]()
        """Of each change that somebody waits for, the request."""
        self._hashing = dict[int, RegisteredHash]()
        """The registrations that wait for the hash of their secret."""
        self._counts = Counter[str]()
        """Of answers to registrations and removals, by their code, or `done`."""

    # -- reading

    def statistics(self) -> Mapping[str, object]:
        """What people are shown."""
        entries, changes, logins = self._entries, self._changes, self._logins
        if entries is None or changes is None or logins is None:
            return {}
        found = {
            "accounts": len(entries) - entries.free, "free": entries.free, "doubled": entries.doubled,
            "changes": len(changes), "logins": len(logins), "hashes": len(self._queue),
        }  # fmt: skip
        return {**found, "answers": dict(sorted((self._counts + logins.counts).items()))}

    def alike(self) -> Mapping[str, Setting]:
        """Nothing."""
        return {}

    def wake_ms(self) -> int | None:
        """When it wants to be woken."""
        if self._changes is None or self._logins is None:
            return None
        return earliest(self._changes.wake_ms(), self._logins.wake_ms())

    # -- what happens

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:  # noqa: ARG002
        """Begin anew."""
        settings = self.settings
        self._entries = AccountEntries(ground.entries)
        self._queue = HashQueue(settings.checks_max)
        self._changes = AccountChanges(self._entries, ground.nodes, settings.patience_ms)
        right = RightSecrets(self._rng)
        self._logins = Logins(
            self._entries, self._changes, self._queue, right, settings.checks_max, settings.look_ms
        )
        self._asked, self._hashing, self._counts = {}, {}, Counter()

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input."""
        entries, changes, logins = self._entries, self._changes, self._logins
        if entries is None or changes is None or logins is None:
            return
        match what:
            case ServiceAsked(id=id):
                try:
                    self._take(turn, what, changes, logins)
                except RequestError as error:
                    self._hashing.pop(id, None)
                    self._answer(turn, id, error)
            case ServiceWithdrawn(id=id):
                logins.withdrawn(turn, id)
                if (hashing := self._hashing.pop(id, None)) is not None:
                    self._queue.drop(hashing)
            case NodeAsked():
                self._say(turn, what, entries)
            case Replied():
                self._replied(turn, what, changes, logins)
            case EntryChanged(key=key):
                if key:
                    entries.look(key)
            case (
                ServiceContinued() | NodeTold() | NodeGaveUp() | NodesSilent() | NodesChanged() | Heard() | Lacked()
                | Announced() | ServiceWoken()
            ):  # fmt: skip
                pass  # time may have passed
            case _:
                assert_never(what)
        self._give_up(turn, logins)
        changes.pass_time(turn)
        logins.pass_time(turn)
        for ended in changes.take_ended():
            self._end(turn, ended)
            logins.settled(turn, ended)

    # -- inside

    def _take(self, turn: ServiceTurn, asked: ServiceAsked, changes: AccountChanges, logins: Logins) -> None:
        """
        Raises:
            RequestError: it is refused.
        """
        id, request = asked.id, asked.request
        if isinstance(request, Register):
            check_form(request.username, request.secret)
            self._check_free(request.username)
            purpose = RegisteredHash(id, request.username, drawn_bytes(self._rng, SALT_BYTES), request.source)
            self._hashing[id] = purpose
            self._queue.add(
                turn, request.source, purpose.username, purpose, request.secret, purpose.salt, self.settings.cost
            )
        elif isinstance(request, Check):
            check_form(request.username, request.secret)
            logins.asked(turn, id, request)
        elif isinstance(request, AccountList):
            turn.answer(id, self._listed(request))
        elif isinstance(request, AccountRemove):
            self._asked[changes.begin(turn, ChangeKind.REMOVE, request.name)] = id
        else:
            raise NotFoundError("this is no question about accounts")

    def _give_up(self, turn: ServiceTurn, logins: Logins) -> None:
        """Where too many hashes wait, those from where most come are refused."""
        for purpose in self._queue.take_crowding():
            if isinstance(purpose, SecretHashed):
                logins.hashed(turn, purpose, busy())
            elif isinstance(purpose, RegisteredHash) and self._hashing.pop(purpose.id, None) is not None:
                self._answer(turn, purpose.id, busy())

    def _replied(self, turn: ServiceTurn, what: Replied, changes: AccountChanges, logins: Logins) -> None:
        purpose = what.purpose
        if isinstance(purpose, RegisteredHash):
            self._queue.done(turn, purpose)
            if self._hashing.pop(purpose.id, None) is not None:
                self._register(turn, purpose, what.reply, changes)
        elif isinstance(purpose, SecretHashed):
            self._queue.done(turn, purpose)
            logins.hashed(turn, purpose, what.reply)
        elif not changes.step(turn, what):
            logins.step(turn, what)

    def _listed(self, request: AccountList) -> AccountsListed:
        entries = self._entries
        if entries is None:
            return AccountsListed((), more=False)
        names, more = entries.page(request.prefix, request.after, request.limit)
        return AccountsListed(tuple(names), more, tuple(filter(entries.is_doubled, names)))

    def _check_free(self, username: str) -> None:
        entries = self._entries
        known = None if entries is None else entries.known(username)
        if username == ANONYMOUS or (known is not None and known.sure):
            raise NameTakenError(f"the name {username!r} is taken")
        if entries is not None and username not in entries and len(entries) >= self.settings.accounts_max:
            raise TooLargeError(f"this network has {len(entries)} user names, with those that are free again: no more")

    def _register(self, turn: ServiceTurn, purpose: RegisteredHash, reply: object, changes: AccountChanges) -> None:
        """The hash of a secret that is to be registered came."""
        if not isinstance(reply, bytes):
            error = reply if isinstance(reply, RequestError) else BadValueError("this secret cannot be kept")
            self._answer(turn, purpose.id, error)
            return
        kept = SecretHash(reply, purpose.salt, self.settings.cost)
        try:
            self._asked[changes.begin(
                turn, ChangeKind.REGISTER, purpose.username, kept, purpose.source
            )] = purpose.id
        except RequestError as error:
            self._answer(turn, purpose.id, error)

    def _end(self, turn: ServiceTurn, ended: ChangeEnded) -> None:
        """A change is over; somebody may wait for it."""
        id = self._asked.pop(ended.id, None)
        if id is None:
            return
        if isinstance(ended.result, RequestError):
            self._answer(turn, id, ended.result)
        elif ended.result.secret is None:
            self._answer(turn, id, AccountRemoved())
        else:
            self._answer(turn, id, Registered())

    def _answer(self, turn: ServiceTurn, id: int, result: ServiceResult) -> None:
        self._counts[result.code if isinstance(result, RequestError) else "done"] += 1
        turn.answer(id, result)

    def _say(self, turn: ServiceTurn, asked: NodeAsked, entries: AccountEntries) -> None:
        """A node wants to know what is on the disk here."""
        try:
            question = QUESTIONS.read(asked.body)
        except DecodeError as error:
            turn.note("account_question_bad", node=asked.node, reason=error.reason)
            return
        turn.answer_node(asked.call, pack(AccountAnswer(entries.known(question.username))))

    def check(self, *, is_whole: bool = True) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._queue.check()
        if self._entries is not None and self._changes is not None and self._logins is not None:
            self._changes.check()
            self._logins.check()
            must(len(self._asked) <= len(self._changes), "who waits, waits for a change")
            must(all(id == one.id for id, one in self._hashing.items()), "each hash is wanted by its request")
            if is_whole:
                self._entries.check()
