"""Consumers: each subscribes, gets messages, records them in its state and says so, by the half that the product has.

Knows: what it wants of its half (`client.consuming`), how it works on messages, and what it tells the rules of that.
Does not know how its half is driven (`driven`), nor what is right.

Invariant: a message and that it is done are written in one moment, in the order in which messages were handed out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, assert_never

import attrs

from distkv.client.consuming import (
    ConsumerChange,
    ConsumerNews,
    ConsumerRequest,
    ConsumerState,
    Consuming,
    MessagesGone,
    Phase,
    SubscriptionEnded,
)
from distkv.core.ready import ServiceResult
from distkv.errors import DistkvError, NotFoundError
from distkv.sim.fleet import Fleet
from distkv.sim.topics.actions import StartConsumer
from distkv.sim.topics.connections import ClientLine
from distkv.sim.topics.driven import PATIENCE_MS, DrivenClient
from distkv.sim.topics.moments import (
    GetSent,
    GetTold,
    MessageRecorded,
    StateForked,
    SubscriptionMissed,
    SubscriptionSent,
    SubscriptionTaken,
)
from distkv.wire.topic_bodies import counters_of
from distkv.wire.topic_replies import TopicMessage, TopicMessages, TopicSubscribed
from distkv.wire.topic_requests import TopicGet, TopicSubscribe, TopicUnsubscribe
from distkv.wire.values import unpack_value

WORK_MS: Final = (0, 0, 1, 20)
"""So long it works on a message."""
LIMITS: Final = (1, 1, 5, 100)
WAITS_S: Final = (0.0, 1.0, 5.0)
PAUSE_MS: Final = 1000
"""Between two gets that do not wait."""
AT_ONCE: Final = 5
"""So many messages are handed out at once."""
AGAIN_MS: Final = 1000
"""After so long whose subscription was lost subscribes again."""


@attrs.frozen
class ConsumerMemory:
    """A consumer's state, with what it recorded there."""

    half: ConsumerState = attrs.field(factory=ConsumerState)
    id: int = 0
    """Which state it is, for rules."""
    recorded: int = 0
    """How many messages."""


class ConsumerClient(DrivenClient[ConsumerMemory, ConsumerRequest, ConsumerChange, ConsumerNews]):
    """One client."""

    def __init__(
        self, fleet: Fleet, seed: int, action: StartConsumer, next_number: Callable[[], int],
        twin: ConsumerClient | None = None,
    ) -> None:  # fmt: skip
        """`next_number`: of states, and of gets; `twin`: whose state it has a copy of."""
        self.name: Final = action.client
        self.action: Final = action
        self.subscriber: Final = action.subscriber or action.client
        self.is_wanting = True
        """Whether it goes on getting messages."""
        self._next_number: Final = next_number
        memory = ConsumerMemory() if twin is None else twin.life.state
        super().__init__(
            fleet, Random(f"consumer {action.client} {seed}"), action.node, memory, ConsumerMemory()
        )  # fmt: skip
        self._left: ConsumerMemory | None = None
        """What the last process left."""
        self._half = self._new_half()
        self._work: deque[TopicMessage] = deque()
        """What was handed out, in this order; the first is being worked on."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing that it was given is left to be recorded."""
        return self.life.is_running and not self._work and not self._half.is_busy

    def unsubscribe(self) -> None:
        """End the subscription, and then the process."""
        if self.life.is_running:
            self._half.unsubscribe()
            self._go_on()

    # -- inside: its process

    def _driven(self) -> Consuming:
        return self._half

    def _renew(self) -> None:
        """Whatever state it has: if it is not the one that the last process had, it is another one for rules."""
        memory = ConsumerMemory() if self.action.is_stateless else self.life.state
        if memory is not self._left:
            new = self._next_number()
            if memory.id:
                self._fleet.moment(StateForked(memory.id, new, memory.recorded))
            memory = attrs.evolve(memory, id=new)
        self.life.state = memory
        self._half = self._new_half()
        self._work.clear()

    def _new_half(self) -> Consuming:
        time_ms = int(self._fleet.now_ms) + 1_000_000
        return Consuming(self.action.topic, self.subscriber, self.life.state.half, time_ms)

    def _end(self) -> None:
        self._left = self.life.state
        super()._end()

    def _prepare(self) -> bool:
        """Take messages, unless the subscription is at an end."""
        if self._half.phase is Phase.OVER:
            self._over()
            return False
        self._hand_out()
        return True

    def _changed(self, change: ConsumerChange, memory: ConsumerMemory) -> ConsumerMemory:
        return attrs.evolve(memory, half=memory.half.with_change(change))

    def _over(self) -> None:
        """The subscription is at an end: as it was wanted, or it is lost."""
        ended = [news for news in self._half.take_news() if isinstance(news, SubscriptionEnded)]
        if not ended:
            self.life.stop()
            return
        error = ended[-1].error
        self._fleet.client(self.name, f"is not subscribed: {error.code}")
        self.life.later(AGAIN_MS, self._subscribe_again)

    def _subscribe_again(self) -> None:
        self._half.subscribe()
        self._go_on()

    # -- inside: messages

    def _hand_out(self) -> None:
        """Take what there is, and want more."""
        half = self._half
        while len(self._work) < AT_ONCE and (message := half.next_message()) is not None:
            self._work.append(message)
            if len(self._work) == 1:
                self._work_on()
        if self.is_wanting and not half.is_busy and not self._work:
            limit, wait_s = self._rng.choice(LIMITS), self._rng.choice(WAITS_S)
            half.want(limit, wait_s)
            half.say()

    def _work_on(self) -> None:
        self.life.later(self._rng.choice(WORK_MS), partial(self._record, self._work[0]))

    def _record(self, message: TopicMessage) -> None:
        """The effect and that it is done, in one transaction."""
        if self._half.is_done(message.producer, message.counter):  # it heard so meanwhile
            self._recorded(message)
            return
        change = self._half.change_of(message.producer, message.counter)

        def written(memory: ConsumerMemory) -> ConsumerMemory:
            identity, value = (message.producer, message.counter), str(unpack_value(message.value))
            told = MessageRecorded(self.action.topic, self.subscriber, memory.id, identity, value)
            self._fleet.moment(told)
            half = memory.half.with_change(change)
            return attrs.evolve(memory, half=half, recorded=memory.recorded + 1)

        self.life.write(written, partial(self._recorded, message))

    def _recorded(self, message: TopicMessage) -> None:
        self._half.done(message.producer, message.counter)
        self._work.popleft()
        if self._work:
            self._work_on()
        self._go_on()

    # -- inside: what it asks

    def _ask(self, line: ClientLine, call: int, request: ConsumerRequest) -> None:
        wait_ms = PATIENCE_MS
        number = self._next_number()
        match request:
            case TopicGet(done=done, wait_s=wait_s):
                wait_ms += int(wait_s * 1000)
                self._fleet.moment(GetSent(request.topic, self.subscriber, number, done))
            case TopicSubscribe() | TopicUnsubscribe():
                is_subscribed = isinstance(request, TopicSubscribe)
                self._fleet.moment(SubscriptionSent(request.topic, self.subscriber, is_subscribed, request.op))
            case _:
                assert_never(request)
        hear = partial(self._hear, call, number, request, self._fleet.now_ms)
        asked = line.ask(request, lambda result: self.life.later(0, partial(hear, result)))
        self.life.later(wait_ms, partial(self._lose_patience, line, asked))

    def _hear(
        self, call: int, number: int, request: ConsumerRequest, asked_ms: int, result: ServiceResult
    ) -> None:
        if not isinstance(result, DistkvError | TopicMessages | TopicSubscribed):
            raise TypeError(f"{result} is no answer to a consumer")
        if isinstance(result, TopicMessages):
            messages = tuple([((one.producer, one.counter), str(unpack_value(one.value))) for one in result.messages])
            gone = tuple(counters_of(result.gone).items())
            self._fleet.moment(GetTold(request.topic, self.subscriber, number, messages, gone))
        elif isinstance(result, TopicSubscribed):
            is_subscribed = isinstance(request, TopicSubscribe)
            told = SubscriptionTaken(
                request.topic, self.subscriber, is_subscribed, result.op, result.is_changed, result.copies
            )  # fmt: skip
            self._fleet.moment(told)
        elif isinstance(result, NotFoundError) and isinstance(request, TopicGet):
            self._fleet.moment(SubscriptionMissed(request.topic, self.subscriber, asked_ms, str(result)))
        self._half.answered(call, result, self._fleet.now_ms)
        self._doubt_node(result)
        if isinstance(result, TopicMessages) and not result.messages:
            self.life.later(PAUSE_MS, self._go_on)
            return
        self._go_on()

    def _take(self, news: ConsumerNews) -> None:
        match news:
            case MessagesGone(counters=counters):
                self._fleet.client(self.name, f"is told that {sum(map(len, counters.values()))} messages are gone")
            case SubscriptionEnded():
                pass
            case _:
                assert_never(news)
