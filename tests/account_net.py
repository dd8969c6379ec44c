"""Accounts on a few nodes without a network: machines, the least that a store and a token service do, and whatever is
on its way between them, of which a test says what comes next.

Knows: the form of a service's machine, and what accounts ask tokens.  Does not know whole nodes.

Invariant: the token service here is ideal: a token has one holder, and each grant a higher number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from distkv.core.accounts.machine import AccountMachine
from distkv.core.accounts.requests import ACCOUNTS
from distkv.core.accounts.settings import AccountSettings
from distkv.core.ground.calls import CallKey
from distkv.core.ground.machine import EntryChanged, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, Replied
from distkv.core.ground.turn import (
    AnsweredNode,
    AskedOfNode,
    AskedOfService,
    AskWithdrawn,
    Effect,
    EntryWritten,
    ServiceTurn,
    WorkWanted,
)
from distkv.core.ready import Answer, Note, ServiceAsked, ServiceQuestion, ServiceResult
from distkv.errors import DistkvError, FencedError, PeerError
from distkv.model.event import NodeName
from distkv.model.fence import GrantNumber
from distkv.wire.account_entries import AccountEntry, read_account
from distkv.wire.token_errors import NoQuorumError, NotHeldError, SessionExpiredError
from distkv.wire.token_replies import ServersAgreed, SessionClosed, SessionOpened, TokenDone, TokenGranted
from distkv.wire.token_replies import TokenServersShown as Shown
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenOpen, TokenRelease, TokenServers
from tests.service_steps import LIFE, WALL, KnownEntries, KnownNodes, ground_of

A, B, C, D = (NodeName(name) for name in "abcd")
THREE: Final = (A, B, C)


@attrs.frozen(eq=False)
class Version:
    """An event of the store."""

    key: str
    value: bytes
    number: GrantNumber
    tock: int
    node: NodeName
    replaces: tuple[Version, ...]

    @property
    def rank(self) -> tuple[GrantNumber, int, NodeName]:
        return self.number, self.tock, self.node


@attrs.frozen(eq=False)
class OnItsWay:
    """Something that comes when a test lets it."""

    kind: str
    """`token`, `ask`, `reply`, `event` or `work`."""
    sender: NodeName
    to: NodeName
    come: Callable[[], None]
    lose: Callable[[], None]
    """What becomes of it when it is lost."""


@attrs.define(eq=False)
class Tokens:
    """The ideal token service."""

    servers: tuple[NodeName, ...] = THREE
    next: tuple[NodeName, ...] = ()
    is_away: bool = False
    """Whether no majority of it answers."""
    count: int = 0
    sessions: set[str] = attrs.field(factory=set)
    holders: dict[str, tuple[str, GrantNumber]] = attrs.field(factory=dict)
    waiting: list[tuple[TokenAcquire, Callable[[object], None]]] = attrs.field(factory=list)
    asked: list[ServiceQuestion] = attrs.field(factory=list)

    def ask(self, request: ServiceQuestion, reply: Callable[[object], None]) -> None:
        self.asked.append(request)
        if self.is_away:
            reply(NoQuorumError("no majority"))
            return
        match request:
            case TokenOpen():
                self.count += 1
                session = f"1-{self.count}"
                self.sessions.add(session)
                reply(SessionOpened(session, 15_000, 1))
            case TokenServers():
                states = dict.fromkeys((*self.servers, *self.next), ("ready", 1))
                reply(Shown(states, ServersAgreed(self.servers[0], 1, 1, 0, self.servers, self.next)))
            case TokenAcquire():
                self.waiting.append((request, reply))
                self._grant()
            case TokenRelease(session=session, token=token, fence=fence):
                is_held = self.holders.get(token) == (session, fence)
                if is_held:
                    del self.holders[token]
                reply(TokenDone() if is_held else NotHeldError("not held"))
                self._grant()
            case TokenClose(session=session):
                self.end(session)
                reply(SessionClosed(session))
            case _:
                raise TypeError(request)

    def end(self, session: str) -> None:
        """It is over, or was closed."""
        self.sessions.discard(session)
        self.holders = {token: held for token, held in self.holders.items() if held[0] != session}
        self._grant()

    def _grant(self) -> None:
        for request, reply in [*self.waiting]:
            if request.session not in self.sessions:
                self.waiting.remove((request, reply))
                reply(SessionExpiredError("over"))
            elif request.token not in self.holders:
                self.waiting.remove((request, reply))
                self.count += 1
                self.holders[request.token] = request.session, GrantNumber(1, self.count)
                reply(TokenGranted(request.token, 1, self.count, 1, is_shared=False))


class AccountNode:
    """One node."""

    def __init__(self, net: AccountNet, name: NodeName) -> None:
        self.net, self.name = net, name
        self.seen = set[Version]()
        self.entries = KnownEntries()
        self.starts = 0
        self.answers = dict[int, ServiceResult]()
        self.notes = list[Note]()
        self.last = 0
        self.begin()

    def begin(self) -> None:
        """Start, or start again: whatever was on its way to it is for nobody."""
        self.starts += 1
        self.withdrawn = set[object]()
        self.machine = AccountMachine(self.net.settings, random.Random(f"{self.name} {self.starts}"))
        turn = ServiceTurn(ACCOUNTS, self.net.now_ms, WALL)
        others = frozenset(self.net.names) - {self.name}
        ground = ground_of(self.name, LIFE, WALL, {}, self.entries)
        self.machine.begin(turn, attrs.evolve(ground, nodes=KnownNodes(others | {self.name}, others)))
        self.carry_out(turn.effects)

    def ask(self, request: ServiceQuestion) -> int:
        """Returns the number of the request."""
        self.last += 1
        self.step(ServiceAsked(ACCOUNTS, self.last, request))
        return self.last

    def step(self, what: ServiceInput) -> None:
        turn = ServiceTurn(ACCOUNTS, self.net.now_ms, WALL)
        self.machine.step(turn, what)
        self.machine.check()
        self.carry_out(turn.effects)

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case AskedOfService(request=request, purpose=purpose):
                    self.withdrawn.discard(purpose)
                    self._ask_tokens(request, self._reply(purpose))
                case AskedOfNode(node=node, body=body, purpose=purpose):
                    self.withdrawn.discard(purpose)
                    self._ask_node(node, body, self._reply(purpose))
                case AnsweredNode(call=call, body=body):
                    self.net.calls.pop((self.name, call))(body)
                case WorkWanted(job=job, purpose=purpose):
                    self.withdrawn.discard(purpose)
                    reply = self._reply(purpose)
                    self.net.send("work", self.name, self.name, lambda j=job, f=reply: f(j()))
                case AskWithdrawn(purpose=purpose):
                    self.withdrawn.add(purpose)
                case EntryWritten(key=key, value=bytes() as value, fence=fence, purpose=purpose, closes=closes):
                    assert fence is not None
                    self._write(key, value, fence.number, purpose, closes)
                case Answer(id=id, result=result):
                    self.answers[id] = result
                    self.net.answered(self, id, result)
                case Note():
                    self.notes.append(effect)
                case _:
                    raise TypeError(effect)

    def _reply(self, purpose: object) -> Callable[[object], None]:
        start = self.starts

        def reply(result: object) -> None:
            if self.starts == start and purpose not in self.withdrawn:
                self.step(Replied(purpose, result))

        return reply

    def _ask_tokens(self, request: ServiceQuestion, reply: Callable[[object], None]) -> None:
        tokens = self.net.tokens
        lost = NoQuorumError("lost")
        self.net.send("token", self.name, self.name, lambda: tokens.ask(request, reply), lambda: reply(lost))

    def _ask_node(self, node: NodeName, body: bytes, reply: Callable[[object], None]) -> None:
        net = self.net
        net.count += 1
        call = CallKey(self.name, 1, net.count)

        def back(answer: bytes) -> None:
            net.send("reply", node, self.name, lambda: reply(answer), lambda: reply(PeerError("silent")))

        def come() -> None:
            net.calls[node, call] = back
            net.nodes[node].step(NodeAsked(call, body))

        net.send("ask", self.name, node, come, lambda: reply(PeerError("silent")))

    # -- the store

    def _write(
        self, key: str, value: bytes, number: GrantNumber, purpose: object, closes: Sequence[bytes | None]
    ) -> None:
        here = self._left(key)
        if here and here[0].number > number:
            self.net.send("work", self.name, self.name, lambda: self._reply(purpose)(FencedError("fenced")))
            return
        replaced = (*here[:1], *[one for one in here[1:] if one.value in closes])
        tock = 1 + max((one.tock for one in self.seen), default=0)
        version = Version(key, value, number, tock, self.name, replaced)
        self.hear(version)
        for node in self.net.nodes.values():
            if node is not self:
                self.net.send("event", self.name, node.name, lambda n=node: n.hear(version), is_sure=True)

    def hear(self, version: Version) -> None:
        if version not in self.seen:
            self.seen.add(version)
            self.entries.found[version.key] = tuple([one.value for one in self._left(version.key)])
            self.step(EntryChanged(version.key))

    def _left(self, key: str) -> list[Version]:
        gone = {old for one in self.seen for old in one.replaces}
        left = [one for one in self.seen if one.key == key and one not in gone]
        return sorted(left, key=lambda one: one.rank, reverse=True)

    def entry(self, username: str) -> AccountEntry | None:
        """What it has of a name."""
        found = self.entries.versions(username)
        return read_account(found[0]) if found and found[0] is not None else None


class AccountNet:
    """All nodes."""

    def __init__(self, *names: NodeName, servers: tuple[NodeName, ...] = THREE, **settings: int) -> None:
        self.settings: Final = AccountSettings(**{"cost": 1, **settings})
        self.now_ms = 1000
        self.count = 0
        self.tokens = Tokens(servers)
        self.on_its_way = list[OnItsWay]()
        self.calls = dict[tuple[NodeName, CallKey], Callable[[bytes], None]]()
        self.answered: Callable[[AccountNode, int, ServiceResult], None] = lambda *_: None
        self.nodes = dict[NodeName, AccountNode]()
        self.names: Final = names or THREE
        for name in self.names:
            self.nodes[name] = AccountNode(self, name)

    def __getitem__(self, name: NodeName) -> AccountNode:
        return self.nodes[name]

    def send(
        self, kind: str, sender: NodeName, to: NodeName, come: Callable[[], None],
        lose: Callable[[], None] = lambda: None, *, is_sure: bool = False,
    ) -> None:  # fmt: skip
        self.on_its_way.append(OnItsWay(kind, sender, to, come, come if is_sure else lose))

    def those(self, kind: str, to: NodeName | None = None, sender: NodeName | None = None) -> Iterator[OnItsWay]:
        """What is on its way and is meant."""
        for one in self.on_its_way:
            if one.kind == kind and to in (None, one.to) and sender in (None, one.sender):
                yield one

    def come(self, one: OnItsWay) -> None:
        self.on_its_way.remove(one)
        one.come()

    def run(self, until_ms: int = 30_000, but: Callable[[OnItsWay], bool] = lambda _: False) -> None:
        """Let all come, but for what a test holds back, and time pass until nothing happens."""
        end_ms = self.now_ms + until_ms
        while True:
            one = next((one for one in self.on_its_way if not but(one)), None)
            if one is not None:
                self.come(one)
                continue
            wakes = [ms for node in self.nodes.values() if (ms := node.machine.wake_ms()) is not None]
            if not wakes or min(wakes) > end_ms:
                return
            self.now_ms = max(self.now_ms + 1, *[min(wakes)])
            for node in self.nodes.values():
                node.step(ServiceWoken())

    def result(self, name: NodeName, request: ServiceQuestion) -> object:
        """What a node answers when all comes; of an error the code."""
        number = self.nodes[name].ask(request)
        self.run()
        return shown(self.nodes[name].answers.get(number))


def shown(result: object) -> object:
    """The code of an error, or the type of an answer."""
    if isinstance(result, DistkvError):
        return result.code
    return None if result is None else type(result)
