"""Producers: each has a state of its own, and puts messages by the half that the product has.

Knows: how a producer's half (`client.producing`) is driven, when its state is written, and when it gives up on a node.
Does not know what a put comes to in the half, nor what is right.

Invariant: each message has a value that no other put of the run has.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final, assert_never

from distkv.client.producing import (
    ProducerChange,
    ProducerNews,
    ProducerState,
    Producing,
    PutAnswered,
    PutOpen,
    PutRefused,
    StreamRenamed,
)
from distkv.core.ready import ServiceResult
from distkv.errors import BusyError, DistkvError, InternalError, RequestError, UnknownOutcomeError
from distkv.sim.fleet import Fleet
from distkv.sim.topics.connections import ClientLine
from distkv.sim.topics.lives import ClientLife
from distkv.sim.topics.moments import PutDenied, PutSent, PutStored
from distkv.wire.topic_errors import NoReplicasError
from distkv.wire.topic_replies import TopicPutDone
from distkv.wire.topic_requests import TopicPut
from distkv.wire.values import pack_value, unpack_value

PATIENCE_MS: Final = 3000
"""So long it waits for an answer; then it asks another node."""
OTHER_NODE: Final = 0.3
"""So often it asks another one after a refusal."""
_UNCERTAIN: Final = (NoReplicasError, UnknownOutcomeError, InternalError)


class ProducerClient:
    """One client."""

    def __init__(
        self, fleet: Fleet, seed: int, node: str, client: str, topic: str, twin: ProducerClient | None = None
    ) -> None:
        """`twin`: whose state it has a copy of."""
        self.name: Final = client
        self.id: Final[str] = client if twin is None else twin.id
        self.topic: Final = topic
        self._fleet: Final = fleet
        self._rng: Final = Random(f"producer {client} {seed}")
        self._node = node
        state = ProducerState() if twin is None else twin.life.state
        self.life: Final[ClientLife[ProducerState]] = ClientLife(
            fleet, self._rng, state, ProducerState(), self._begin, self._end
        )
        self._half = Producing(self.id, state, self._rng.randbytes)
        self._line: ClientLine | None = None
        self._values: dict[int, str] = {}
        """Of this process, by the number of the put."""
        self._sent = 0
        self._wake_ms: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether all that it put is answered."""
        return self.life.is_running and not self._half.has_open

    def send(self, count: int) -> None:
        """Put so many messages."""
        for _ in range(count if self.life.is_running else 0):
            self._sent += 1
            value = f"{self.name}-{self._sent}"
            try:
                number = self._half.put(self.topic, pack_value(value))
            except BusyError:
                break
            self._values[number] = value
        self._go_on()

    def move(self, node: str) -> None:
        """Connect to another node."""
        self._node = node
        if self._line is not None:
            self._line.move(node)

    # -- inside: its process

    def _begin(self) -> None:
        self._half = half = Producing(self.id, self.life.state, self._rng.randbytes)
        self._values = {number: str(unpack_value(value)) for number, value in half.open_puts(self.topic).items()}
        self._wake_ms = None
        self._line = ClientLine(self._fleet, self._node, self._go_on, self._disconnected)

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = None

    def _disconnected(self) -> None:
        self._half.disconnected(self._fleet.now_ms)
        self._go_on()

    def _go_on(self) -> None:
        """Write what is to be written, send what is to be sent, take the news, and plan the next wake."""
        half, line = self._half, self._line
        if line is None:
            return
        half.check()
        change = half.take_change()
        if change is not None:
            self.life.write(partial(_changed, change), self._committed)
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
        self._half.committed()
        self._go_on()

    def _wake(self, wake_ms: int) -> None:
        if self._wake_ms == wake_ms:
            self._wake_ms = None
            self._go_on()

    # -- inside: what it asks

    def _ask(self, line: ClientLine, call: int, request: TopicPut) -> None:
        value, identity = str(unpack_value(request.value)), (request.producer or "", request.counter or 0)
        self._fleet.moment(PutSent(self.name, request.topic, value, identity))
        number = line.ask(request, lambda result: self.life.later(0, partial(self._hear, call, value, result)))
        self.life.later(PATIENCE_MS, partial(self._lose_patience, line, number))

    def _lose_patience(self, line: ClientLine, number: int) -> None:
        if line is self._line and line.is_open(number):
            line.give_up()

    def _hear(self, call: int, value: str, result: ServiceResult) -> None:
        if not isinstance(result, DistkvError | TopicPutDone):
            raise TypeError(f"{result} is no answer to a put")
        if isinstance(result, DistkvError):
            self._fleet.moment(PutDenied(self.name, self.topic, value, result.code, is_certain(result)))
        self._half.answered(call, result, self._fleet.now_ms)
        if isinstance(result, DistkvError) and self._line is not None and self._rng.random() < OTHER_NODE:
            self._line.give_up()
        self._go_on()

    def _take(self, news: ProducerNews) -> None:
        match news:
            case PutAnswered(number=number, topic=topic, producer=producer, counter=counter, copies=copies):
                self._fleet.moment(PutStored(self.name, topic, self._values[number], (producer, counter), copies))
            case PutRefused(number=number, error=error):
                self._fleet.client(self.name, f"does not put {self._values[number]}: {error.code}")
            case StreamRenamed(was=was, producer=producer):
                self._fleet.client(self.name, f"was {was}, and is {producer}")
            case PutOpen():
                pass
            case _:
                assert_never(news)


def _changed(change: ProducerChange, state: ProducerState) -> ProducerState:
    return state.with_change(change)


def is_certain(error: DistkvError) -> bool:
    """Whether nothing can have happened that was refused with it."""
    return isinstance(error, RequestError) and not isinstance(error, _UNCERTAIN)
