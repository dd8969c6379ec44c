"""Accounts that are made, made sure, or removed: each under the token of its name.

Knows: how far each change is, and what it asks next.  Does not know who wants it, nor who may log in.

A change opens a session and takes the token. It asks the token servers what they know of the name, and writes its entry
under the fence of the token. It waits until a majority has this entry on the disk, and gives the token back. Only if
that succeeds it held the token all the time, so nobody else can have found the name free: then it is made sure.

Invariant: a change ends once. Nothing is sure that was written under a token which was not given back in order.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, assert_never

import attrs

from distkv.core.accounts.entries import AccountEntries
from distkv.core.accounts.inquiries import TOKENS, Inquiries
from distkv.core.accounts.opinions import Fate, Opinions
from distkv.core.ground.alarms import earliest
from distkv.core.ground.machine import NetworkNodes
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import (
    BusyError,
    DistkvError,
    InternalError,
    NotFoundError,
    NotReadyError,
    RequestError,
    UnknownOutcomeError,
)
from distkv.model.fence import GrantNumber
from distkv.model.invariant import must
from distkv.wire.account_entries import AccountEntry, SecretHash, fence_of, token_of
from distkv.wire.account_errors import NameTakenError, NoMajorityError
from distkv.wire.token_errors import HeldError, TimedOutError
from distkv.wire.token_replies import SessionOpened, TokenDone, TokenGranted
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenOpen, TokenRelease

CHANGES_MAX: Final = 64
TTL_S: Final = 15.0
WAIT_S: Final = 5.0
OPEN_MS: Final = 10_000
"""So long a change waits for its session and the token."""


class ChangeKind(Enum):
    """What a change is for."""

    REGISTER = "register"
    SETTLE = "settle"
    """Find out whether a registration that is not sure succeeded, and make that so for good."""
    REMOVE = "remove"


class ChangeStage(Enum):
    """What a change waits for."""

    OPENING = "a session"
    ACQUIRING = "the token"
    LEARNING = "what the servers know"
    SPREADING = "a majority that has its entry"
    RELEASING = "the token being given back"


@attrs.frozen
class ChangeStep:
    """The purpose of what a change asks."""

    id: int
    stage: ChangeStage


@attrs.frozen
class ChangeEnded:
    """What became of a change."""

    id: int
    username: str
    result: AccountEntry | RequestError
    """What counts of the name now; or why nobody knows, or it was not done."""


@attrs.define(eq=False)
class AccountChange:
    """One that is under way."""

    id: int
    kind: ChangeKind
    username: str
    secret: SecretHash | None
    """What is to be registered."""
    until_ms: int
    """Then it has failed."""
    source: int
    """From where it is wanted."""
    stage: ChangeStage = ChangeStage.OPENING
    session: str = ""
    number: GrantNumber | None = None
    """Of the grant of the token."""
    inquiry: int | None = None
    entry: AccountEntry | None = None
    """What was written."""


class AccountChanges:
    """Those of one node."""

    def __init__(self, entries: AccountEntries, nodes: NetworkNodes, patience_ms: int) -> None:
        self._entries: Final = entries
        self._nodes: Final = nodes
        self._patience_ms: Final = patience_ms
        self._inquiries: Final = Inquiries("changes")
        self._open: Final = dict[int, AccountChange]()
        self._ended: Final = list[ChangeEnded]()
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def begin(
        self, turn: ServiceTurn, kind: ChangeKind, username: str, secret: SecretHash | None = None, source: int = 0
    ) -> int:
        """Begin one; returns its number, by which `ChangeEnded` names it. One more begins for a source only while it
        has fewer than are left.

        Raises:
            BusyError: too many are under way.
        """
        if sum(one.source == source for one in self._open.values()) >= CHANGES_MAX - len(self._open):
            raise BusyError(f"{len(self._open)} accounts are being changed on this node: try again later")
        self._last += 1
        change = AccountChange(self._last, kind, username, secret, turn.boot_ms + OPEN_MS, source)
        self._open[change.id] = change
        turn.ask(TOKENS, TokenOpen(0, TTL_S), ChangeStep(change.id, ChangeStage.OPENING))
        return change.id

    def step(self, turn: ServiceTurn, what: Replied) -> bool:
        """Something was answered; whether it was for a change."""
        if isinstance(what.purpose, ChangeStep):
            change = self._open.get(what.purpose.id)
            if change is not None:
                self._replied(turn, change, what.purpose.stage, what.reply)
            return True
        inquiry = self._inquiries.replied(turn, what)
        if inquiry is None:
            return False
        self._learn(turn, next(one for one in self._open.values() if one.inquiry == inquiry))
        return True

    def pass_time(self, turn: ServiceTurn) -> None:
        """After each input."""
        self._inquiries.woken(turn)
        for change in [one for one in self._open.values() if one.until_ms <= turn.boot_ms]:
            text = f"{change.stage.value} was waited for in vain"
            self._fail(turn, change, NoMajorityError(f"no majority of the token servers answered: {text}"))

    def take_ended(self) -> list[ChangeEnded]:
        """Those that ended since the last time."""
        found = [*self._ended]
        self._ended.clear()
        return found

    def wake_ms(self) -> int | None:
        """When `pass_time` has something to do."""
        return earliest(self._inquiries.wake_ms(), min((one.until_ms for one in self._open.values()), default=None))

    # -- inside

    def _replied(self, turn: ServiceTurn, change: AccountChange, stage: ChangeStage, reply: object) -> None:
        if stage is ChangeStage.OPENING and isinstance(reply, SessionOpened):
            change.session, change.stage = reply.session, ChangeStage.ACQUIRING
            asked = TokenAcquire(0, change.session, token_of(change.username), wait_s=WAIT_S)
            turn.ask(TOKENS, asked, ChangeStep(change.id, ChangeStage.ACQUIRING))
        elif stage is ChangeStage.ACQUIRING and isinstance(reply, TokenGranted):
            change.number, change.until_ms = reply.number, turn.boot_ms + self._patience_ms
            self._ask(turn, change, ChangeStage.LEARNING)
        elif stage is ChangeStage.RELEASING and isinstance(reply, TokenDone):
            self._succeed(turn, change)
        elif stage is ChangeStage.SPREADING and isinstance(reply, RequestError):
            change.entry = None  # the store refused it
            self._end(turn, change, reply)
        elif isinstance(reply, DistkvError):
            self._fail(turn, change, _refusal(reply))
        else:
            self._fail(turn, change, InternalError(f"the token service answered {type(reply).__name__}"))

    def _ask(self, turn: ServiceTurn, change: AccountChange, stage: ChangeStage) -> None:
        """The servers that count now are asked, one after the other."""
        if change.inquiry is not None:
            self._inquiries.end(turn, change.inquiry)
            change.inquiry = None
        change.stage = stage
        try:
            is_first = stage is ChangeStage.LEARNING and change.kind is ChangeKind.REGISTER
            change.inquiry = self._inquiries.begin(turn, change.username, self._nodes.alive if is_first else ())
        except BusyError as error:
            self._fail(turn, change, error)

    def _learn(self, turn: ServiceTurn, change: AccountChange) -> None:
        """A server answered, or it is known who serves, or why not."""
        assert change.inquiry is not None
        known = self._inquiries.of(change.inquiry)
        if known.error is not None:
            self._fail(turn, change, _refusal(known.error))
        elif known.opinions is not None and change.stage is ChangeStage.LEARNING and not known.others:
            self._decide(turn, change, known.opinions)
        elif known.opinions is not None and change.stage is ChangeStage.SPREADING:
            self._spread(turn, change, known.opinions)

    def _decide(self, turn: ServiceTurn, change: AccountChange, opinions: Opinions) -> None:
        """Once a majority has answered, and what it says is enough."""
        if not opinions.is_majority:
            return
        best = opinions.best(self._entries.known(change.username))
        is_free = best is None or best.secret is None
        match change.kind:
            case ChangeKind.REGISTER if is_free:
                self._write(turn, change, change.secret)
            case ChangeKind.REMOVE if is_free:
                self._end(turn, change, NotFoundError(f"there is no account {change.username!r}"))
            case ChangeKind.REMOVE:
                self._write(turn, change, None)
            case ChangeKind.REGISTER | ChangeKind.SETTLE:
                self._judge(turn, change, best, opinions)
            case _:
                assert_never(change.kind)

    def _judge(self, turn: ServiceTurn, change: AccountChange, best: AccountEntry | None, opinions: Opinions) -> None:
        """There is an account, or one is to be settled."""
        taken = NameTakenError(f"the name {change.username!r} is taken")
        is_register = change.kind is ChangeKind.REGISTER
        if best is None or best.secret is None:
            self._end(turn, change, best or AccountEntry(0, 0))
        elif best.sure:
            self._end(turn, change, taken if is_register else best)
        else:
            fate = opinions.fate(best.secret)
            if fate is Fate.HELD and is_register:
                self._end(turn, change, taken)
            elif fate is Fate.HELD:
                self._write(turn, change, best.secret)
            elif fate is Fate.NOT_HELD:
                self._write(turn, change, change.secret)

    def _write(self, turn: ServiceTurn, change: AccountChange, secret: SecretHash | None) -> None:
        assert change.number is not None
        change.entry = AccountEntry(*change.number, secret)
        self._put(turn, change.username, change.entry, ChangeStep(change.id, ChangeStage.SPREADING))
        self._ask(turn, change, ChangeStage.SPREADING)

    def _put(self, turn: ServiceTurn, username: str, entry: AccountEntry, purpose: object = None) -> None:
        """Into the store; what it replaces is not shown as a conflict any more."""
        closes = tuple([value for value in self._entries.values(username) if value != entry.packed()])
        turn.write(username, entry.packed(), purpose, fence_of(username, entry.number), closes)

    def _spread(self, turn: ServiceTurn, change: AccountChange, opinions: Opinions) -> None:
        """Whether a majority has what was written; those that lack it are asked again."""
        entry = change.entry
        assert entry is not None
        best = opinions.best(None)
        if best is not None and best.number > entry.number:
            self._fail(turn, change, BusyError("somebody else has taken the token of the name"))
            return
        has = opinions.has_free(entry.number) if entry.secret is None else opinions.fate(entry.secret) is Fate.HELD
        if not has:
            lacking = [node for node, found in opinions.answers.items() if found is None or found.number < entry.number]
            assert change.inquiry is not None
            self._inquiries.ask_again(turn, change.inquiry, lacking)
            return
        change.stage = ChangeStage.RELEASING
        asked = TokenRelease(0, change.session, token_of(change.username), entry.number)
        turn.ask(TOKENS, asked, ChangeStep(change.id, ChangeStage.RELEASING))

    def _succeed(self, turn: ServiceTurn, change: AccountChange) -> None:
        assert change.entry is not None
        entry = change.entry
        if entry.secret is not None:
            entry = AccountEntry(entry.epoch, entry.counter, entry.secret, sure=True)
            self._put(turn, change.username, entry)
        self._end(turn, change, entry)

    def _fail(self, turn: ServiceTurn, change: AccountChange, error: RequestError) -> None:
        """What a registration wrote is taken back; whoever took the token meanwhile has a higher fence."""
        if change.entry is None:
            self._end(turn, change, error)
            return
        if change.kind is ChangeKind.REGISTER:
            self._put(turn, change.username, AccountEntry(change.entry.epoch, change.entry.counter))
        text = "registered" if change.kind is ChangeKind.REGISTER else "removed"
        says = f"it is not known whether {change.username!r} is {text}: {error}"
        self._end(turn, change, error if change.kind is ChangeKind.SETTLE else UnknownOutcomeError(says))

    def _end(self, turn: ServiceTurn, change: AccountChange, result: AccountEntry | RequestError) -> None:
        if change.inquiry is not None:
            self._inquiries.end(turn, change.inquiry)
        turn.withdraw(ChangeStep(change.id, change.stage))
        if change.session:
            turn.ask(TOKENS, TokenClose(0, change.session), None)
        del self._open[change.id]
        self._ended.append(ChangeEnded(change.id, change.username, result))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._inquiries.check()
        must(len(self._open) <= CHANGES_MAX, "few changes are under way")
        for change in self._open.values():
            has_token = change.stage not in (ChangeStage.OPENING, ChangeStage.ACQUIRING)
            is_written = change.stage in (ChangeStage.SPREADING, ChangeStage.RELEASING)
            must((change.number is not None) == has_token, "what has the token goes on")
            must((change.inquiry is not None) == has_token, "the servers are asked under the token")
            must((change.entry is not None) == is_written, "what is written spreads")


def _refusal(error: DistkvError) -> RequestError:
    """What the token service said, in words for whoever registers."""
    if isinstance(error, HeldError | TimedOutError):
        return BusyError("somebody else registers or removes this name now: try again")
    if isinstance(error, BusyError | NotReadyError):
        return error
    if error.code == RequestError.code:
        return NoMajorityError("this network has no token servers, so nobody can register: set tokens.servers")
    return NoMajorityError(f"no majority of the token servers answers: {error}")
