"""All clients of tokens of one run, by their names.

Knows: which client is meant, and what becomes of all in the end.  Does not know what a client does (`clients`).

Invariant: a client that is not there any more does nothing; another one of its name may take its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, assert_never

from distkv.core.ready import Answer, ServiceAsked
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.state import TokenState
from distkv.errors import DistkvError, RequestError
from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.sim.tokens.actions import (
    AcquireToken,
    BreakToken,
    CloseSession,
    FreezeClient,
    ReleaseToken,
    ResetTokens,
    SetData,
    SetServers,
    StartClient,
    TokenAction,
)
from distkv.sim.tokens.clients import TokenClient
from distkv.sim.tokens.nodes import TokenNodes, token_nodes
from distkv.wire.token_fields import version_of
from distkv.wire.token_requests import TokenBreak, TokenRequest, TokenReset, TokenSetServers

ALL_WANTED: Final = "all tokens are wanted"
"""So it is told that all is well, and every client wants something from now on."""
LAST_MS: Final = 1000
"""So long after that each client asks."""
LAST_HOLD_MS: Final = 200
"""In the end each client wants what it wanted last, and holds it for so long."""
CHANGE_S: Final = 60.0
"""So long somebody waits for a change of the servers."""
CALM_MS: Final = 5000
"""After faults ended, messages of before are on their way for so long."""


class TokenCrowd:
    """They come when they are opened."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet: Final = fleet
        self._clients: Final = dict[str, TokenClient]()
        self._opened: Final = dict[str, StartClient]()
        self._wanted: Final = dict[str, AcquireToken]()
        """What each client asked for last."""
        self._tokens: Final = dict[str, None]()
        """All for which any client has asked."""
        self._counts: Final = Counter[str]()

    def do(self, action: ServiceAction) -> str:
        """Carry out one action. Returns why it cannot be, if that is so."""
        if not isinstance(action, TokenAction):
            raise TypeError(f"{action} is none of tokens")
        nodes = token_nodes(self._fleet.services)
        if nodes is None:
            return "there are no tokens: say 'settings tokens=3' first"
        match action:
            case StartClient(client=name):
                if name in self._clients and not self._clients[name].is_over:
                    return f"{name} has a session"
                self._open(action, nodes)
                return ""
            case BreakToken() | ResetTokens() | SetServers():
                return self._ask(action)
            case AcquireToken() | ReleaseToken() | SetData() | CloseSession() | FreezeClient():
                pass
            case _:
                assert_never(action)
        client = self._clients.get(action.client)
        if client is None or client.is_over:
            return f"{action.client} has no session"
        match action:
            case AcquireToken():
                self._wanted[action.client] = action
                self._tokens[action.token] = None
                client.acquire(action)
            case ReleaseToken(token=token):
                client.release(token)
            case SetData(token=token, value=value, keeps=keeps):
                client.set_data(token, value, keeps=keeps)
            case CloseSession():
                client.close()
            case FreezeClient(for_ms=for_ms):
                if not client.is_frozen:
                    self._fleet.client(client.name, "is frozen")
                    client.freeze(for_ms)
            case _:
                assert_never(action)
        return ""

    def lines(self) -> list[str]:
        """Who may work under which tokens, in words."""
        found = []
        for name, client in sorted(self._clients.items()):
            held = " ".join(str(fence) for _, fence in sorted(client.held.items()))
            if held:
                found.append(f"{name}: holds {held}")
        return found

    def shown(self, action: ShowService) -> list[str]:  # noqa: ARG002  # there is only one
        """What the token servers know, in words."""
        nodes = token_nodes(self._fleet.services)
        if nodes is None:
            return []
        names = {client.session: name for name, client in self._clients.items()}
        return server_lines(nodes, names, self._tokens, self._fleet.now_ms)

    def all_is_well(self) -> bool:
        """Faults are over, and nodes at rest: let every client have once more what it wanted last, one after another.
        Returns whether time has passed."""
        nodes = token_nodes(self._fleet.services)
        if nodes is None or not self._clients:
            return False
        for name, client in list(self._clients.items()):
            client.thaw()
            if not client.session:  # it has used up a part of its patience
                client.close()
            if client.is_over:
                self._open(self._opened[name], nodes)
        self._fleet.run(CALM_MS)
        self._fleet.befell("", ALL_WANTED)
        wait_ms = nodes.bound_ms * (2 + len(self._clients))
        for name, action in self._wanted.items():
            again = AcquireToken(name, action.token, action.is_shared, wait_ms, LAST_HOLD_MS, action.writes)
            self._clients[name].release(action.token)
            self._fleet.later(LAST_MS, partial(self.do, again))
        self._fleet.run(nodes.bound_ms * 2)
        return True

    # -- inside

    def _open(self, action: StartClient, nodes: TokenNodes) -> None:
        self._counts[action.client] += 1
        self._opened[action.client] = action
        self._clients[action.client] = TokenClient(self._fleet, action, nodes, self._counts[action.client])

    def _ask(self, action: BreakToken | ResetTokens | SetServers) -> str:
        """What somebody asks of a node without a session."""
        name = action.node
        process = self._fleet.hosts[name].process
        if process is None:
            return f"{name} does not run"
        request: TokenRequest = TokenReset(0)
        what = "reset the tokens"
        if isinstance(action, BreakToken):
            request, what = TokenBreak(0, action.token), f"break {action.token}"
        elif isinstance(action, SetServers):
            hosts = self._fleet.hosts
            request = TokenSetServers(0, tuple([hosts[one].node for one in action.servers]), CHANGE_S)
            what = f"change the token servers to {' '.join(action.servers)}"
        self._fleet.client(name, f"is asked to {what}")
        number = process.next_request()
        process.asked[number] = partial(self._answered, name)
        process.host.give(process, partial(self._give, name, process, ServiceAsked(TOKENS, number, request)))
        return ""

    def _give(self, name: str, process: Process, asked: ServiceAsked) -> None:
        try:
            process.step(asked)
        except RequestError as error:  # a reset that cannot be
            self._answered(name, Answer(asked.id, error))

    def _answered(self, name: str, answer: Answer) -> None:
        if isinstance(answer.result, DistkvError):
            self._fleet.client(name, f"refuses: {answer.result.code}")


def server_lines(nodes: TokenNodes, names: Mapping[str, str], tokens: Iterable[str], now_ms: int) -> list[str]:
    """What each group of servers knows of all, and which of them may grant. `names` are those of clients, by their
    sessions; `tokens` those of which it is of interest who is responsible."""
    groups: dict[str, list[str]] = {}
    granting: list[str] = []
    for name, machine in _running(nodes):
        groups.setdefault(_known(machine.effective, names, tokens), []).append(name)
        consensus = machine.consensus
        if consensus is not None and nodes.hosts[name].boot_ms(now_ms) < consensus.grants_until_ms:
            granting.append(name)
    lines = [f"{' '.join(some)}: {words}" for words, some in groups.items()]
    return [*lines, f"may grant: {' '.join(granting) or 'nobody'}"]


def _running(nodes: TokenNodes) -> Iterator[tuple[str, TokenMachine]]:
    for name, host in nodes.hosts.items():
        machine = nodes.machines.get(name)
        if machine is None or host.process is None:
            continue
        consensus = machine.consensus
        if host.node in nodes.settings.servers if consensus is None else consensus.is_server:
            yield name, machine


def _known(state: TokenState | None, names: Mapping[str, str], tokens: Iterable[str]) -> str:
    if state is None:
        return "no version"
    sessions = sorted(f"{names.get(one, 'session')} {version_of(one)}" for one in state.sessions)
    parts = [
        f"version {state.version}",
        f"{state.leader} leads",
        ", ".join(f"{name} {one.standing.value}" for name, one in state.servers.items()),
        f"changes to {' '.join(state.next)}" if state.next else "",
        ", ".join(sessions) or "no sessions",
        ", ".join(f"{token} at {state.server_of(token)}" for token in sorted(tokens)),
    ]
    return "; ".join(part for part in parts if part)
