"""What must be true of accounts in every run.

Knows: what was asked of which node and answered, and which disks were lost.  Does not know how an account is made.

Invariant: a secret is that of one registration in a run, so whoever logs in with it is whoever registered it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from distkv.core.accounts.requests import Check, Register, Registered, SecretChecked
from distkv.core.ready import Answer, Input, Ready, ServiceAsked
from distkv.errors import RequestError, UnknownOutcomeError
from distkv.sim.accounts.crowd import ALL_LOG_IN
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.account_errors import WrongSecretError
from distkv.wire.account_requests import AccountRemove
from distkv.wire.message import Record, ResetRecord, StaleRecord

LOST_MAX: Final = 1
"""With so many lost disks a majority of three servers or more still has what it had."""
_CHANGED: Final = "is asked to change the token servers"
_GONE: Final = "is said to be gone for good"

Asked: TypeAlias = Register | Check | AccountRemove


class DisksLost(Observer):
    """It breaks nothing; rules ask it."""

    def __init__(self) -> None:
        self._lost: set[str] = set()
        self._joined: set[str] = set()
        """Hosts that have something to lose."""
        self._is_changed = False
        """Whether there may have been a list with one server only."""

    @property
    def are_many(self) -> bool:
        """Whether a majority of a list may have lost what it had."""
        return len(self._lost) > (0 if self._is_changed else LOST_MAX)

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._lost.add(host.name)
        if host.disk.is_empty:
            self._joined.discard(host.name)

    def started(self, process: Process, records: Sequence[Record]) -> None:
        if records:
            self._joined.add(process.host.name)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if ready.records and any(isinstance(record, ResetRecord | StaleRecord) for record in ready.records):
            if process.host.name in self._joined:
                self._lost.add(process.host.name)
            self._joined.add(process.host.name)

    def client(self, at_ms: int, name: str, what: str) -> None:  # noqa: ARG002
        self._is_changed |= what.startswith(_CHANGED)

    def befell(self, at_ms: int, name: str, what: str) -> None:  # noqa: ARG002
        if what == _GONE:
            self._lost.add(name)


class AccountObserver(Observer):
    """It is told what is asked about accounts, and what is answered."""

    def __init__(self, disks: DisksLost) -> None:
        self.disks = disks
        self._open: dict[tuple[Process, int], Asked] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        if isinstance(what, ServiceAsked) and isinstance(what.request, Asked):
            self._open[process, what.id] = what.request
            self.asked(what.request)
        for answer in ready.answers:
            self._answered(process, answer)

    def asked(self, request: Asked) -> None: ...
    def answered(self, process: Process, request: Asked, result: object) -> None: ...

    @property
    def waiting(self) -> list[Asked]:
        """What nobody has answered, though its node runs."""
        return [*self._open.values()]

    def ended(self, process: Process) -> None:
        for key in [key for key in self._open if key[0] is process]:
            del self._open[key]

    def _answered(self, process: Process, answer: Answer) -> None:
        request = self._open.pop((process, answer.id), None)
        if request is not None:
            self.answered(process, request, answer.result)


@attrs.define
class _Ownership:
    owner: bytes | None = None
    """The secret that was last seen to be right."""
    before: set[bytes] = attrs.field(factory=set)
    """Those that were right before somebody removed the account: nodes may not know that yet."""
    is_removing: bool = False
    """Whether somebody has asked to remove it since the owner was first seen."""


class OwnedOnce(AccountObserver):
    """A name belongs to whoever was told that it is registered, or logs in. Nobody else is told so, or logs in, until
    somebody removes the account; unless a majority of the token servers lost their disks."""

    rule = "a name has one owner"

    def __init__(self, disks: DisksLost) -> None:
        super().__init__(disks)
        self.owned_count = 0
        self._names: dict[str, _Ownership] = {}

    def asked(self, request: Asked) -> None:
        if isinstance(request, AccountRemove):
            self._name(request.name).is_removing = True

    def answered(self, process: Process, request: Asked, result: object) -> None:
        if isinstance(request, AccountRemove) or not isinstance(result, Registered | SecretChecked):
            return
        name, secret = self._name(request.username), request.secret
        if secret in name.before or self.disks.are_many:
            return
        if name.owner is None:
            self.owned_count += 1
        elif secret != name.owner:
            if not name.is_removing:
                raise self.broken(f"{request.username} of {name.owner!r} is that of {secret!r} at {process.host.name}")
            name.before.add(name.owner)
            name.is_removing = False
        name.owner = secret

    def _name(self, username: str) -> _Ownership:
        return self._names.setdefault(username, _Ownership())


class OnlyRegistered(AccountObserver):
    """A secret that logs in was registered with this name, and nobody was told that this failed."""

    rule = "no secret but that of a registration logs in"

    def __init__(self, disks: DisksLost) -> None:
        super().__init__(disks)
        self._failed: set[tuple[str, bytes]] = set()
        self._asked: set[tuple[str, bytes]] = set()

    def asked(self, request: Asked) -> None:
        if isinstance(request, Register):
            self._asked.add((request.username, request.secret))

    def answered(self, process: Process, request: Asked, result: object) -> None:
        if isinstance(request, Register) and isinstance(result, RequestError):
            if not isinstance(result, UnknownOutcomeError):
                self._failed.add((request.username, request.secret))
        elif isinstance(request, Check) and isinstance(result, SecretChecked):
            pair = request.username, request.secret
            if pair not in self._asked or pair in self._failed:
                raise self.broken(f"{request.secret!r} logs in as {request.username} at {process.host.name}")


class SameEverywhere(AccountObserver):
    """Once all is well each secret logs in at all nodes or at none, and everybody is answered. Whoever was told that
    the name is registered logs in, unless somebody removed the account."""

    rule = "accounts are the same everywhere"

    def __init__(self, disks: DisksLost) -> None:
        super().__init__(disks)
        self.registered_count = self.checked_count = 0
        self._is_last = False
        self._owners: dict[str, bytes] = {}
        self._removals: Counter[str] = Counter()
        """How many removals of a name were asked for and not answered. A node that ended never answers."""
        self._counted: set[bytes] = set()
        """The secrets of registrations that began when there was none."""
        self._last: dict[tuple[str, bytes], set[str]] = {}
        """What each secret was answered at the end."""

    def befell(self, at_ms: int, name: str, what: str) -> None:  # noqa: ARG002
        self._is_last |= what == ALL_LOG_IN

    def asked(self, request: Asked) -> None:
        if isinstance(request, AccountRemove):
            self._owners.pop(request.name, None)
            self._removals[request.name] += 1
        elif isinstance(request, Register) and not self._removals[request.username]:
            self._counted.add(request.secret)

    def answered(self, process: Process, request: Asked, result: object) -> None:  # noqa: ARG002
        if isinstance(request, Register) and isinstance(result, Registered):
            self.registered_count += 1
            if request.secret in self._counted and not self._removals[request.username]:
                self._owners[request.username] = request.secret
        if isinstance(request, AccountRemove):
            self._removals[request.name] -= 1
        if self._is_last and isinstance(request, Check):
            is_known = isinstance(result, SecretChecked | WrongSecretError)
            text = type(result).__name__ if is_known else f"{result!r}"
            self._last.setdefault((request.username, request.secret), set()).add(text)
            self.checked_count += 1

    def settled(self, fleet: Observed) -> None:  # noqa: ARG002
        if not self._is_last or self.disks.are_many:
            return
        if self.waiting:
            raise self.broken(f"nobody answered {self.waiting}")
        for (name, secret), said in self._last.items():
            if len(said) > 1 or not said <= {SecretChecked.__name__, WrongSecretError.__name__}:
                raise self.broken(f"the login of {name} with {secret!r} is answered {', '.join(sorted(said))}")
            if self._owners.get(name) == secret and SecretChecked.__name__ not in said:
                raise self.broken(f"{name} was registered with {secret!r}, which does not log in")
