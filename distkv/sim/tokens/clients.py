"""Clients of tokens: each has a clock of its own, one session, and a connection to one node at a time.

Knows: what people do with tokens, how a client's half (`client.holding`) is driven, and which node it asks next.  Does
not know how a session is kept, nor what is right.

A client is a process on a machine of its own, beside the nodes: between it and a node there are a few milliseconds, and
the end of a node's process, but no cuts and no losses.

Invariant: what a frozen client is told waits for it in order; its clock goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, assert_never

import attrs

from distkv.client.holding import Holding
from distkv.client.holding_news import (
    DataAnswered,
    SessionEnded,
    SessionLives,
    SessionNews,
    SessionRequest,
    TokenObtained,
    TokenRefused,
    TokenReleased,
    TokenTaken,
)
from distkv.core.client_writes import LocalSet, WriteDone
from distkv.core.ready import Answer, ServiceAsked, ServiceWithdrawn
from distkv.core.tokens.machine import TOKENS
from distkv.errors import ConnectionLostError, DistkvError, RequestError
from distkv.model.fence import Fence
from distkv.model.path import Path
from distkv.sim.clock import HostClock
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.sim.tokens.actions import AcquireToken, StartClient
from distkv.sim.tokens.moments import DataMoment, TokenChange, TokenMoment
from distkv.sim.tokens.nodes import TokenNodes
from distkv.wire.asking import encode_request
from distkv.wire.frames import decode_request
from distkv.wire.token_errors import UngrantedError
from distkv.wire.token_fields import Ticket, read_ticket
from distkv.wire.token_replies import SessionClosed, SessionKept, SessionOpened, TokenDone, TokenGranted
from distkv.wire.token_requests import TokenAcquire
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value, unpack_value

WAY_MS: Final = 2
"""Between a client and a node, one way."""
CONNECT_MS: Final = 100
"""After so long a client that lost its connection tries the next node."""
OFFSET_MS: Final = 10**9
OPEN_MS: Final = 60_000
"""So long a client tries to open its session."""
DATA_MS: Final = 5000
"""So long it tries to change the data of a token."""
STOP_MS: Final = 300
"""So long it works on under a token of which it is told that it was taken."""
WRITE_BYTES: Final = 4096
"""More than a write under a fence takes in the log."""
TOKEN_PATH: Final = Path(["token"])
"""Below it is what clients write under a fence, by the name of the token."""


class TokenClient:
    """One client."""

    def __init__(self, fleet: Fleet, action: StartClient, nodes: TokenNodes, count: int) -> None:
        """`count`: how many sessions it had before."""
        self.name: Final = action.client
        self.is_frozen = False
        self._fleet: Final = fleet
        self._rng: Final = Random(f"client {action.client} {count} {nodes.seed}")
        self._clock: Final = HostClock(action.rate)
        self._offset_ms: Final = int(self._rng.random() * OFFSET_MS)
        self._half: Final = Holding(ttl_s=None if action.ttl_ms is None else action.ttl_ms / 1000, drift=nodes.drift)
        self._node = action.node
        self._process: Process | None = None
        self._connection = 0
        """Its number: what belongs to an earlier one is not heard."""
        self._asked: Final = dict[int, Process]()
        """The requests that are under way, by their numbers there."""
        self._wishes: Final = dict[str, AcquireToken]()
        """How it asked for each token the last time."""
        self._held: Final = dict[str, Fence]()
        """What it was told that it holds."""
        self._tickets: Final = dict[int, str]()
        """Which requests that are under way may bring a place in a queue, for which token."""
        self._data_writes: Final = dict[int, DataMoment]()
        """Changes of data that are under way."""
        self._queued: list[Callable[[], object]] = []
        self._wake_ms: int | None = None
        self._writes = 0
        self._half.open(OPEN_MS, OPEN_MS, self.now_ms)
        self._connect()

    # -- reading

    @property
    def now_ms(self) -> int:
        """By its own clock."""
        return self._offset_ms + self._clock.monotonic_ms(self._fleet.now_ms)

    @property
    def session(self) -> str:
        return self._half.session

    @property
    def is_over(self) -> bool:
        return self._half.is_over

    @property
    def held(self) -> dict[str, Fence]:
        """What it may work under now."""
        return {token: fence for token, fence in self._held.items() if self.believes(token)}

    def believes(self, token: str) -> bool:
        lost_ms = self._half.lost_at_ms(token)
        return lost_ms is not None and self.now_ms < lost_ms

    # -- what its user does

    def acquire(self, action: AcquireToken) -> None:
        """Ask for a token, unless it has asked for it already."""
        self.do(partial(self._acquire, action))

    def release(self, token: str) -> None:
        """Give it up, or the wish to have it."""
        self.do(partial(self._release, token, None))

    def set_data(self, token: str, value: object, *, keeps: bool = False) -> None:
        """Change its data, if it is held."""
        self.do(partial(self._set_data, token, value, keeps=keeps))

    def close(self) -> None:
        """End the session."""
        self.do(self._close)

    def freeze(self, for_ms: int) -> None:
        """Its process gets no time for so long."""
        self.is_frozen = True
        self._fleet.later(for_ms, self.thaw)

    def thaw(self) -> None:
        """Its process goes on. Before it looks at its clock it writes once more under what it held: no lock can prevent
        that, and the store must."""
        if not self.is_frozen:
            return
        self.is_frozen = False
        for token, fence in list(self._held.items()):
            self._write(token, fence)
        queued, self._queued = self._queued, []
        for do in queued:
            self.do(do)
        self.do(lambda: self._half.woken(self.now_ms))

    def do(self, what: Callable[[], object]) -> None:
        """Now, or when its process goes on; then see what comes of it."""
        if self.is_frozen:
            self._queued.append(what)
            return
        what()
        self._go_on()

    def disconnected(self) -> None:
        """The connection is gone: try the next node."""
        self._withdraw()
        if self._process is not None:
            self._process.connected.pop(self, None)
        self._process = None
        self._connection += 1
        self.do(lambda: self._half.disconnected(ConnectionLostError("the connection broke"), self.now_ms))
        self._next_node()

    # -- inside: what its user does

    def _acquire(self, action: AcquireToken) -> None:
        token = action.token
        if self._half.is_over:
            return
        try:
            self._half.acquire(token, is_shared=action.is_shared, wait_ms=action.wait_ms, now_ms=self.now_ms)
        except RequestError:
            return  # it has asked for it already, or is giving it up
        self._wishes[token] = action
        self._tell(token, TokenChange.WANTED)

    def _release(self, token: str, fence: Fence | None) -> None:
        """`fence`: only if it is held with that."""
        held = self._held.get(token)
        if fence is not None and held != fence:
            return
        if held is not None and self.believes(token):
            self._write(token, held)
        if self._held.pop(token, None) is not None:
            self._say(f"releases {token}")
        for id in [id for id, name in self._tickets.items() if name == token]:
            del self._tickets[id]  # a place that is told from now on is not wanted any more
        self._half.release(token, self.now_ms)
        self._tell(token, TokenChange.GONE)

    def _set_data(self, token: str, value: object, *, keeps: bool) -> None:
        data, fence, wish = pack_value(value), self._half.fence(token, self.now_ms), self._wishes.get(token)
        try:
            number = self._half.set_data(token, data, DATA_MS, self.now_ms, keeps=keeps)
        except RequestError as error:
            self._say(f"does not set the data of {token}: {error.code}")
            return
        if fence is not None and wish is not None:
            moment = DataMoment(self, token, fence, wish.is_shared, number, data, is_done=False, keeps=keeps)
            self._data_writes[number] = moment
            self._fleet.moment(moment)

    def _close(self) -> None:
        self._say("closes its session")
        self._forget()
        self._half.close(self.now_ms)

    def _write(self, token: str, fence: Fence) -> None:
        """Under its fence, at the node that it is connected with."""
        process, wish = self._process, self._wishes.get(token)
        if process is None or wish is None or not wish.writes:
            return
        self._writes += 1
        value = pack_value(f"{self.name} {self._writes}")
        request = SetValue(1, Path((*TOKEN_PATH.names, token)), value, fence=fence)
        self._fleet.later(WAY_MS, lambda: process.host.give(process, partial(self._offer, process, request)))

    def _offer(self, process: Process, request: SetValue) -> None:
        if not process.host.disk.has_room(WRITE_BYTES):
            return
        reply = process.step(LocalSet(request)).reply
        if isinstance(reply, WriteDone) and reply.event is not None and process.is_running:
            process.when_durable(partial(self._fleet.acknowledge, process, reply.event))

    # -- inside: the connection

    def _connect(self) -> None:
        if self._half.is_over or self._process is not None:
            return
        process = self._fleet.hosts[self._node].process
        if process is None:
            self._next_node()
            return
        self._process = process
        process.connected[self] = self.disconnected
        self.do(lambda: self._half.connected(self.now_ms))

    def _next_node(self) -> None:
        names = [host.name for host in self._fleet.hosts.values() if host.is_ours]
        self._node = names[(names.index(self._node) + 1) % len(names)]
        self._fleet.later(CONNECT_MS, self._connect)

    def _go_on(self) -> None:
        """Send what is to be sent, take the news, and plan the next wake."""
        half, process = self._half, self._process
        for question in half.take_questions():
            if process is not None:
                asked = question.id, question.request
                self._fleet.later(WAY_MS, partial(self._ask, process, self._connection, *asked))
        for news in half.take_news():
            self._take(news)
        if half.wants_other_node and process is not None:
            self._fleet.later(0, partial(self._give_up, self._connection))
        wake_ms = half.wake_ms()
        if wake_ms is not None and wake_ms != self._wake_ms:
            self._wake_ms = wake_ms
            at_ms = max(self._clock.when(wake_ms - self._offset_ms, self._fleet.now_ms), self._fleet.now_ms + 1)
            self._fleet.agenda.at(at_ms, partial(self._wake, wake_ms))

    def _give_up(self, connection: int) -> None:
        if connection == self._connection and self._half.wants_other_node:
            self.disconnected()

    def _wake(self, wake_ms: int) -> None:
        if self._wake_ms == wake_ms:
            self._wake_ms = None
            self.do(lambda: self._half.woken(self.now_ms))

    def _ask(self, process: Process, connection: int, id: int, request: SessionRequest) -> None:
        """The request is there, if anybody is."""
        if connection != self._connection or not process.is_running:
            return
        number = process.next_request()
        read = decode_request(encode_request(attrs.evolve(request, seq=number)))
        if not isinstance(read, type(request)):
            raise TypeError(f"a node takes {request} for {read}")
        if isinstance(read, TokenAcquire):
            self._tickets[id] = read.token
        process.asked[number] = partial(self._answered, connection, id, number)
        self._asked[number] = process
        process.host.give(process, partial(process.step, ServiceAsked(TOKENS, number, read)))

    def _answered(self, connection: int, id: int, number: int, answer: Answer) -> None:
        if connection == self._connection:
            self._asked.pop(number, None)
            self._fleet.later(WAY_MS, partial(self.do, partial(self._hear, connection, id, answer)))

    def _hear(self, connection: int, id: int, answer: Answer) -> None:
        result = answer.result
        if not isinstance(result, DistkvError | SessionOpened | SessionKept | SessionClosed | TokenGranted | TokenDone):
            raise TypeError(f"{result} is no answer to a session")
        if connection != self._connection:
            return
        token = self._tickets.pop(id, None)
        is_waiting = token in self._wishes and token not in self._held
        if isinstance(result, UngrantedError) and result.ticket is not None and token is not None and is_waiting:
            self._tell(token, TokenChange.QUEUED, read_ticket(result.ticket))
        self._half.answered(id, result, self.now_ms)

    def _withdraw(self) -> None:
        """Its requests are not waited for any more."""
        for number, process in list(self._asked.items()):
            if process.asked.pop(number, None) is not None:
                process.host.give(process, partial(process.step, ServiceWithdrawn(TOKENS, number)))
        self._asked.clear()
        self._tickets.clear()

    # -- inside: news

    def _take(self, news: SessionNews) -> None:
        match news:
            case SessionLives():
                self._say("opens a session")
            case TokenObtained(token=token, fence=fence):
                self._obtained(token, fence)
            case TokenRefused(token=token, error=error):
                self._say(f"does not get {token}: {error.code}")
                self._tell(token, TokenChange.GONE)
            case TokenTaken(token=token):
                self._say(f"loses {token}")
                self._fleet.later(STOP_MS, lambda: self.do(partial(self._let_go, token)))
            case SessionEnded(error=error):
                if error is not None:
                    self._say(f"has lost its session: {error.code}")
                self._forget()
            case DataAnswered(number=number, error=error):
                moment = self._data_writes.pop(number, None)
                if moment is not None and error is None:
                    self._fleet.moment(attrs.evolve(moment, is_done=True))
            case TokenReleased():
                pass
            case _:
                assert_never(news)

    def _let_go(self, token: str) -> None:
        self._half.let_go(token, self.now_ms)
        if not self.believes(token):
            self._held.pop(token, None)
            self._tell(token, TokenChange.GONE)

    def _obtained(self, token: str, fence: Fence) -> None:
        self._held[token] = fence
        data = self._half.data(token, self.now_ms)
        self._say(f"holds {fence}" if data is None else f"holds {fence}, with {unpack_value(data)!r}")
        self._tell(token, TokenChange.HELD, data=data)
        self._write(token, fence)
        hold_ms = self._wishes[token].hold_ms
        if hold_ms is not None:
            self._fleet.later(hold_ms, lambda: self.do(partial(self._release, token, fence)))

    def _forget(self) -> None:
        self._held.clear()
        for token in list(self._wishes):
            self._tell(token, TokenChange.GONE)
        self._wishes.clear()

    def _tell(
        self, token: str, change: TokenChange, ticket: Ticket | None = None, data: bytes | None = None
    ) -> None:
        wish = self._wishes.get(token)
        is_shared = wish is not None and wish.is_shared
        self._fleet.moment(TokenMoment(self, token, change, is_shared, self._held.get(token), ticket, data))

    def _say(self, what: str) -> None:
        self._fleet.client(self.name, what)
