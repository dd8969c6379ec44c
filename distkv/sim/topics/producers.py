"""Producers: each has a state of its own, and puts messages by the half that the product has.

Knows: what it puts, and what it tells the rules of that.  Does not know how its half is driven (`driven`), what a put
comes to in the half, nor what is right.

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
from distkv.errors import BusyError, DistkvError, InternalError, NotReadyError, RequestError, UnknownOutcomeError
from distkv.sim.fleet import Fleet
from distkv.sim.topics.connections import ClientLine
from distkv.sim.topics.driven import PATIENCE_MS, DrivenClient
from distkv.sim.topics.moments import PutDenied, PutSent, PutStored
from distkv.wire.topic_errors import NoReplicasError
from distkv.wire.topic_replies import TopicPutDone
from distkv.wire.topic_requests import TopicPut
from distkv.wire.values import pack_value, unpack_value

_UNCERTAIN: Final = (NoReplicasError, NotReadyError, UnknownOutcomeError, InternalError)
"""Not ready is also what a node says that leaves the network, or begins anew, of puts that it had asked of others."""


class ProducerClient(DrivenClient[ProducerState, TopicPut, ProducerChange, ProducerNews]):
    """One client."""

    def __init__(
        self, fleet: Fleet, seed: int, node: str, client: str, topic: str, twin: ProducerClient | None = None
    ) -> None:
        """`twin`: whose state it has a copy of."""
        self.name: Final = client
        self.id: Final[str] = client if twin is None else twin.id
        self.topic: Final = topic
        state = ProducerState() if twin is None else twin.life.state
        super().__init__(fleet, Random(f"producer {client} {seed}"), node, state, ProducerState())
        self._half = Producing(self.id, state, self._rng.randbytes)
        self._values: dict[int, str] = {}
        """Of this process, by the number of the put."""
        self._sent = 0

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

    # -- inside: its process

    def _driven(self) -> Producing:
        return self._half

    def _renew(self) -> None:
        self._half = half = Producing(self.id, self.life.state, self._rng.randbytes)
        self._values = {number: str(unpack_value(value)) for number, value in half.open_puts(self.topic).items()}

    def _changed(self, change: ProducerChange, state: ProducerState) -> ProducerState:
        return state.with_change(change)

    # -- inside: what it asks

    def _ask(self, line: ClientLine, call: int, request: TopicPut) -> None:
        value, identity = str(unpack_value(request.value)), (request.producer or "", request.counter or 0)
        self._fleet.moment(PutSent(self.name, request.topic, value, identity))
        number = line.ask(request, lambda result: self.life.later(0, partial(self._hear, call, value, result)))
        self.life.later(PATIENCE_MS, partial(self._lose_patience, line, number))

    def _hear(self, call: int, value: str, result: ServiceResult) -> None:
        if not isinstance(result, DistkvError | TopicPutDone):
            raise TypeError(f"{result} is no answer to a put")
        if isinstance(result, DistkvError):
            self._fleet.moment(PutDenied(self.name, self.topic, value, result.code, is_certain(result)))
        self._half.answered(call, result, self._fleet.now_ms)
        self._doubt_node(result)
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


def is_certain(error: DistkvError) -> bool:
    """Whether nothing can have happened that was refused with it."""
    return isinstance(error, RequestError) and not isinstance(error, _UNCERTAIN)
