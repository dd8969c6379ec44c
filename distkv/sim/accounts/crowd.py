"""All users of one run, and what they ask.

Knows: how an action becomes a request to a node, and what it is answered, in words.  Does not know what is right
(`rules`).
"""

from __future__ import annotations

from functools import partial
from typing import Final, assert_never

from distkv.core.accounts.requests import ACCOUNTS, Check, Register, Registered, SecretChecked
from distkv.core.ready import Answer, ServiceAsked, ServiceQuestion
from distkv.core.registry import service_path
from distkv.errors import DecodeError, DistkvError
from distkv.sim.accounts.actions import LoginUser, RegisterUser, RemoveUser, UserAction
from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.wire.account_entries import read_account
from distkv.wire.account_requests import AccountRemove, AccountRemoved

ALL_LOG_IN: Final = "everybody logs in everywhere"
"""So it is told that all is well: from now on each secret is tried at each node."""
CALM_MS: Final = 40_000
"""After faults ended: until then sessions of before are over, and nodes agree."""
LAST_MS: Final = 20_000


class AccountCrowd:
    """They come, ask once, and go."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet: Final = fleet
        self._secrets: Final = dict[str, dict[str, None]]()
        """All that were ever registered, by name."""

    def do(self, action: ServiceAction) -> str:
        """Carry out one action. Returns why it cannot be, if that is so."""
        if not isinstance(action, UserAction):
            raise TypeError(f"{action} is none of accounts")
        if ACCOUNTS not in self._fleet.services:
            return "there are no accounts: say 'settings accounts=yes' first"
        process = self._fleet.hosts[action.node].process
        if process is None:
            return f"{action.node} does not run"
        match action:
            case RegisterUser(name=name, secret=secret):
                self._secrets.setdefault(name, {})[secret] = None
                request: ServiceQuestion = Register(0, name, secret.encode())
                what = f"{name} registers"
            case LoginUser(name=name, secret=secret):
                request, what = Check(0, name, secret.encode()), f"{name} logs in with {secret}"
            case RemoveUser(name=name):
                request, what = AccountRemove(0, name), f"{name} is removed"
            case _:
                assert_never(action)
        number = process.next_request()
        process.asked[number] = partial(self._answered, action.node, what)
        process.host.give(process, partial(process.step, ServiceAsked(ACCOUNTS, number, request)))
        return ""

    def lines(self) -> list[str]:
        """What each node has of each account, in words."""
        return [
            f"{host.name}: {name} {self._shown(host, name)}"
            for name in sorted(self._secrets)
            for host in self._fleet.ours()
            if host.process is not None
        ]

    def shown(self, action: ShowService) -> list[str]:  # noqa: ARG002  # there is only one
        """The same."""
        return self.lines()

    def all_is_well(self) -> bool:
        """Faults are over, and nodes at rest: try each secret at each node. Returns whether time has passed."""
        if not self._secrets or ACCOUNTS not in self._fleet.services:
            return False
        self._fleet.run(CALM_MS)
        self._fleet.befell("", ALL_LOG_IN)
        for host in [host for host in self._fleet.ours() if host.live.is_serving]:
            for name, secrets in self._secrets.items():
                for secret in secrets:
                    self.do(LoginUser(host.name, name, secret))
        self._fleet.run(LAST_MS)
        return True

    # -- inside

    def _answered(self, node: str, what: str, answer: Answer) -> None:
        result = answer.result
        if isinstance(result, DistkvError):
            self._fleet.client(node, f"{what}: {result.code}")
        elif isinstance(result, Registered | SecretChecked | AccountRemoved):
            self._fleet.client(node, f"{what}: done")

    @staticmethod
    def _shown(host: Host, name: str) -> str:
        head = host.live.tree.head(service_path(ACCOUNTS, name))
        if head is None:
            return "is unknown"
        try:
            entry = read_account(head.value)
        except DecodeError:
            return "is unreadable"
        if entry.secret is None:
            return f"is free since {entry.number}"
        return f"is {'sure' if entry.sure else 'not sure'} since {entry.number}"
