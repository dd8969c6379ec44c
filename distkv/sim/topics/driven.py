"""A client of topics whose half is the one of the product: its state is written, its questions are sent, it is woken.

Knows: when the half is asked for what it wants, in which order, and which node is asked.  Does not know what it asks,
nor what its news mean.

Invariant: what the half wants written is written before it hears so; it is woken once for each time that it names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from distkv.core.ready import ServiceResult
from distkv.errors import DistkvError
from distkv.sim.fleet import Fleet
from distkv.sim.topics.connections import ClientLine
from distkv.sim.topics.lives import ClientLife

PATIENCE_MS: Final = 3000
"""So long a client waits for an answer, besides what the request waits; then it asks another node."""
OTHER_NODE: Final = 0.3
"""So often it asks another one after a refusal."""

S = TypeVar("S")
Q = TypeVar("Q")
C = TypeVar("C")
N = TypeVar("N")
C_co = TypeVar("C_co", covariant=True)


class ClientHalf(Protocol[Q, C_co, N]):
    """`Producing` or `Consuming`: it asks `Q`, wants `C_co` written, and has news `N`."""

    def take_change(self) -> C_co | None: ...

    def committed(self) -> None: ...

    def take_questions(self, now_ms: int) -> list[tuple[int, Q]]: ...

    def wake_ms(self) -> int | None: ...

    def disconnected(self, now_ms: int) -> None: ...

    def take_news(self) -> list[N]: ...

    def check(self) -> None: ...


class DrivenClient(ABC, Generic[S, Q, C, N]):
    """One client, over all its processes. `S`: its state."""

    def __init__(self, fleet: Fleet, rng: Random, node: str, state: S, empty: S) -> None:
        self._fleet: Final = fleet
        self._rng: Final = rng
        self._node = node
        self.life: Final[ClientLife[S]] = ClientLife(fleet, rng, state, empty, self._begin, self._end)
        self._line: ClientLine | None = None
        self._wake_ms: int | None = None

    def move(self, node: str) -> None:
        """Connect to another node."""
        self._node = node
        if self._line is not None:
            self._line.move(node)

    # -- what a client of one kind does

    @abstractmethod
    def _driven(self) -> ClientHalf[Q, C, N]:
        """The half of this process."""

    @abstractmethod
    def _renew(self) -> None:
        """A process begins: it has another half, with what is left of the state."""

    @abstractmethod
    def _changed(self, change: C, state: S) -> S:
        """A state with what the half wants written."""

    @abstractmethod
    def _ask(self, line: ClientLine, call: int, request: Q) -> None:
        """Send a question of the half."""

    @abstractmethod
    def _take(self, news: N) -> None:
        """The half has news."""

    def _prepare(self) -> bool:
        """Before the half is asked for what it wants; whether it is."""
        return True

    # -- its process

    def _begin(self) -> None:
        self._renew()
        self._wake_ms = None
        self._line = ClientLine(self._fleet, self._node, self._go_on, self._disconnected)

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = None

    def _disconnected(self) -> None:
        self._driven().disconnected(self._fleet.now_ms)
        self._go_on()

    def _go_on(self) -> None:
        """Write what is to be written, send what is to be sent, take the news, and plan the next wake."""
        half, line = self._driven(), self._line
        if line is None:
            return
        half.check()
        if not self._prepare():
            return
        change = half.take_change()
        if change is not None:
            self.life.write(partial(self._changed, change), self._committed)
        if line.is_connected:
            for call, request in half.take_questions(self._fleet.now_ms):
                self._ask(line, call, request)
        for news in half.take_news():
            self._take(news)
        wake_ms = half.wake_ms()
        if line.is_connected and wake_ms is not None and wake_ms != self._wake_ms:
            self._wake_ms = wake_ms
            self.life.later(max(1, wake_ms - self._fleet.now_ms), partial(self._wake, wake_ms))

    def _committed(self) -> None:
        self._driven().committed()
        self._go_on()

    def _wake(self, wake_ms: int) -> None:
        if self._wake_ms == wake_ms:
            self._wake_ms = None
            self._go_on()

    # -- when a node is given up

    def _lose_patience(self, line: ClientLine, number: int) -> None:
        if line is self._line and line.is_open(number):
            line.give_up()

    def _doubt_node(self, result: ServiceResult) -> None:
        """After a refusal the client asks another node, perhaps."""
        if isinstance(result, DistkvError) and self._line is not None and self._rng.random() < OTHER_NODE:
            self._line.give_up()
