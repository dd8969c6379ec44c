"""Producers and consumers of topics against a model server: a network that loses and repeats, and clients that crash at
every wait and come back with their state, an old one, or none.

Knows: what must be true in the end.  Does not know how the halves find out.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

import pytest

from distkv.client.consuming import ConsumerState, Consuming, SubscriptionEnded
from distkv.client.producing import ProducerState, Producing, PutAnswered, PutRefused
from distkv.errors import BadValueError, BusyError, DistkvError, UnreachableError
from distkv.wire.topic_errors import AwayError, NoReplicasError
from distkv.wire.topic_replies import TopicReply
from distkv.wire.topic_requests import TopicPut
from distkv.wire.values import pack_value
from tests.profiles import seeds
from tests.property.topic_model import ModelTopic

TICK_MS = 20
SILENT_MS = 1000
"""After so long a client takes what is not answered for lost."""
REFUSED = b"7"
"""What ends so is refused for good."""
Id = tuple[str, int]
Take = Callable[[TopicReply | DistkvError], None]


class World:
    """The server, the network, and time."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.server = ModelTopic()
        self.now_ms = 0
        self.is_calm = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_ms: int, what: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._events, (self.now_ms + delay_ms, self._count, what))

    def run(self, span_ms: int) -> None:
        end_ms = self.now_ms + span_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, what = heappop(self._events)
            what()
        self.now_ms = end_ms

    def chance(self, part: float) -> bool:
        """Of a fault."""
        return not self.is_calm and self.rng.random() < part

    def send(self, request: object, take: Take) -> None:
        """A request on its way: perhaps never, late, or twice."""
        for _ in range(2 if self.chance(0.1) else 1):
            if not self.chance(0.1):
                self.after(
                    self.rng.choice((1, 5, 5000 if self.chance(0.1) else 30)), lambda: self._serve(request, take)
                )

    def _serve(self, request: object, take: Take) -> None:
        if self.chance(0.05):
            errors = (BusyError("busy"), AwayError("away"), UnreachableError("no answer"))
            answer: TopicReply | DistkvError = self.rng.choice(errors)
        elif isinstance(request, TopicPut) and request.value.endswith(REFUSED):
            answer = BadValueError("no value")
        else:
            answer = self.server.answer(request)
        if isinstance(request, TopicPut) and self.chance(0.05):
            answer = NoReplicasError("too few copies")
        if not self.chance(0.1):
            self.after(self.rng.choice((1, 10, 100)), lambda: take(answer))


class Client:
    """What crashes, and comes back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.life = 0
        self.asked_ms: int | None = None
        self.begin()
        world.after(TICK_MS, self._tick)

    def begin(self) -> None:
        """With the state that is there."""

    def step(self) -> None:
        """What it does at a time; raises `Crash`."""

    def wait(self) -> None:
        """Here it may crash."""
        if self.world.chance(0.01):
            raise Crash

    def taker(self, take: Take) -> Take:
        """Nobody is told after a crash."""
        life = self.life
        return lambda answer: take(answer) if life == self.life else None

    def _tick(self) -> None:
        try:
            self.step()
        except Crash:
            self.life += 1
            self.asked_ms = None
            self.begin()
        self.world.after(TICK_MS, self._tick)


class Crash(Exception):
    """A client is gone."""


class Producer(Client):
    """Puts messages, each with a value of its own."""

    def __init__(self, world: World, id: str, *, keeps: float) -> None:
        self.id = id
        self.keeps = keeps
        self.olds = [ProducerState()]
        self.values: dict[int, bytes] = {}
        self.answered: set[bytes] = set()
        self.refused: set[bytes] = set()
        self.count = 0
        super().__init__(world)

    def begin(self) -> None:
        if self.world.rng.random() >= self.keeps:
            self.olds = self.world.rng.choice(
                (self.olds[: self.world.rng.randrange(len(self.olds)) + 1], [ProducerState()])
            )
        self.half = Producing(self.id, self.olds[-1], self.world.rng.randbytes)
        self.values.clear()

    def step(self) -> None:
        half, now_ms = self.half, self.world.now_ms
        if not self.world.is_calm and self.world.rng.random() < 0.2:
            self.count += 1
            value = pack_value(f"{self.id} {self.count}")
            self.values[half.put("log", value)] = value
        self.wait()
        if (change := half.take_change()) is not None:
            self.wait()
            self.olds.append(self.olds[-1].with_change(change))
            self.wait()
            half.committed()
        questions = half.take_questions(now_ms)
        for call, request in questions:
            self.asked_ms = now_ms
            self.world.send(
                request, self.taker(lambda answer, call=call: half.answered(call, answer, self.world.now_ms))
            )  # type: ignore[misc]
            self.wait()
        if self.asked_ms is not None and now_ms - self.asked_ms > SILENT_MS:
            self.asked_ms = None
            half.disconnected(now_ms)
        half.check()
        for news in half.take_news():
            if isinstance(news, PutAnswered) and news.number in self.values:
                self.answered.add(self.values.pop(news.number))
            if isinstance(news, PutRefused) and news.number in self.values and not news.may_have_happened:
                self.refused.add(self.values.pop(news.number))


class Consumer(Client):
    """Writes each message down, in one step with that it is done."""

    def __init__(self, world: World, id: str, *, keeps: float) -> None:
        self.id = id
        self.keeps = keeps
        self.olds: list[tuple[ConsumerState, tuple[Id, ...]]] = [(ConsumerState(), ())]
        self.ever: set[Id] = set()
        super().__init__(world)

    def begin(self) -> None:
        rng = self.world.rng
        if rng.random() >= self.keeps:
            self.olds = rng.choice((self.olds[: rng.randrange(len(self.olds)) + 1], [(ConsumerState(), ())]))
        self.half = Consuming("log", self.id, self.olds[-1][0], 1_000_000 + self.world.now_ms)

    def step(self) -> None:
        half, now_ms = self.half, self.world.now_ms
        half.want(limit=self.world.rng.choice((1, 5)))
        self.wait()
        if (change := half.take_change()) is not None:
            self.wait()
            state, effects = self.olds[-1]
            self.olds.append((state.with_change(change), effects))
            self.wait()
            half.committed()
        while (message := half.next_message()) is not None:
            self.wait()
            one = (message.producer, message.counter)
            state, effects = self.olds[-1]
            self.olds.append((state.with_change(half.change_of(*one)), (*effects, one)))
            self.ever.add(one)
            self.wait()
            half.done(*one)
            half.check()
        for call, request in half.take_questions(now_ms):
            self.asked_ms = now_ms
            self.world.send(
                request, self.taker(lambda answer, call=call: half.answered(call, answer, self.world.now_ms))
            )  # type: ignore[misc]
            self.wait()
        if self.asked_ms is not None and now_ms - self.asked_ms > SILENT_MS:
            self.asked_ms = None
            half.disconnected(now_ms)
        half.check()
        assert not [news for news in half.take_news() if isinstance(news, SubscriptionEnded)]

    @property
    def effects(self) -> tuple[Id, ...]:
        return self.olds[-1][1]


def play(
    seed: int, *, producers_keep: float = 1.0, consumers_keep: float = 1.0
) -> tuple[World, list[Producer], list[Consumer]]:
    world = World(seed)
    consumers = [Consumer(world, f"bill{number}", keeps=consumers_keep) for number in range(2)]
    world.is_calm = True
    world.run(2000)  # both are subscribed before anything is put
    world.is_calm = False
    producers = [Producer(world, f"meter{number}", keeps=producers_keep) for number in range(2)]
    world.run(10_000)
    world.is_calm = True
    world.run(20_000)
    return world, producers, consumers


@pytest.mark.parametrize("seed", seeds(20, []))
def test_clients_with_their_state_get_each_answered_message_once(seed: int) -> None:
    world, producers, consumers = play(seed)
    values = [*world.server.messages.values()]
    assert len(values) == len(set(values)), "a message was stored twice"
    for producer in producers:
        assert producer.answered <= set(values)
        assert not producer.refused & set(values)
        assert not producer.half.has_open
    for consumer in consumers:
        assert sorted(consumer.effects) == sorted(world.server.messages)


@pytest.mark.parametrize("seed", seeds(20, []))
def test_producer_whose_state_is_lost_or_old_loses_no_answered_message(seed: int) -> None:
    world, producers, consumers = play(seed, producers_keep=0.3)
    for producer in producers:
        assert producer.answered <= {*world.server.messages.values()}
    for consumer in consumers:
        assert sorted(consumer.effects) == sorted(world.server.messages)


@pytest.mark.parametrize("seed", seeds(20, []))
def test_consumer_whose_state_is_lost_or_old_gets_all_and_none_twice_into_one_state(seed: int) -> None:
    world, _, consumers = play(seed, consumers_keep=0.3)
    for consumer in consumers:
        assert len(consumer.effects) == len(set(consumer.effects))
        assert consumer.ever == world.server.messages.keys()
