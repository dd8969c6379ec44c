"""One server of topics as plain sets of facts: what producers and consumers are answered.

Knows: what was put, and what is done.  Does not know copies, nodes and forgetting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from distkv.errors import DistkvError, NotFoundError, RequestError
from distkv.model.ranges import Ranges
from distkv.wire.topic_bodies import flat_map
from distkv.wire.topic_errors import TakenError, stale_op
from distkv.wire.topic_replies import TopicMessage, TopicMessages, TopicPutDone, TopicReply, TopicSubscribed
from distkv.wire.topic_requests import TopicGet, TopicPut, TopicSubscribe, TopicUnsubscribe

Id = tuple[str, int]
TAGS = 64
"""Of so many counters of a producer the tags are known."""


@attrs.define
class Subscription:
    op: int
    is_subscribed: bool
    base: set[Id]
    done: set[Id]


@attrs.define
class ModelTopic:
    """One topic."""

    messages: dict[Id, bytes] = attrs.field(factory=dict)
    tags: dict[Id, bytes | None] = attrs.field(factory=dict)
    subscribers: dict[str, Subscription] = attrs.field(factory=dict)

    def answer(self, request: object) -> TopicReply | DistkvError:
        """What it says to a request."""
        match request:
            case TopicPut():
                return self._put(request)
            case TopicSubscribe():
                return self._subscribe(request)
            case TopicUnsubscribe(subscriber=name, op=op):
                return self._set(name, op or 1, is_subscribed=False)
            case TopicGet():
                return self._get(request)
        return RequestError("no such request")

    def owed(self, subscriber: str) -> list[Id]:
        """In each producer's order."""
        found = self.subscribers[subscriber]
        return sorted(self.messages.keys() - found.base - found.done)

    def _put(self, put: TopicPut) -> TopicReply | DistkvError:
        assert put.producer is not None
        assert put.counter is not None
        one = (put.producer, put.counter)
        if one in self.messages:
            last = max(counter for producer, counter in self.messages if producer == put.producer)
            if self.tags[one] != put.tag or put.counter <= last - TAGS:
                return TakenError("another message has this number")
            return TopicPutDone(*one, True, 1)
        self.messages[one], self.tags[one] = put.value, put.tag
        return TopicPutDone(*one, False, 1)

    def _subscribe(self, asked: TopicSubscribe) -> TopicReply | DistkvError:
        assert asked.op is not None
        answer = self._set(asked.subscriber, asked.op, is_subscribed=True)
        if isinstance(answer, DistkvError):
            return answer
        found = self.subscribers[asked.subscriber]
        had = {(producer, counter) for producer, some in (asked.had or {}).items() for counter in some}
        unknown = found.done - had
        found.done |= had
        return TopicSubscribed(answer.op, answer.is_changed, 1, flat_map(as_ranges(unknown)))

    def _set(self, name: str, op: int, *, is_subscribed: bool) -> TopicSubscribed | DistkvError:
        known = self.subscribers.get(name)
        if known is not None and op < known.op:
            return stale_op(known.op)
        if known is not None and op == known.op:
            return TopicSubscribed(op, False, 1)
        self.subscribers[name] = Subscription(op, is_subscribed, set(self.messages), set())
        return TopicSubscribed(op, True, 1)

    def _get(self, asked: TopicGet) -> TopicReply | DistkvError:
        known = self.subscribers.get(asked.subscriber)
        if known is None or not known.is_subscribed:
            return NotFoundError("not subscribed")
        known.done |= self.messages.keys() & set(asked.done)
        owed = self.owed(asked.subscriber)
        told = [TopicMessage(*one, self.messages[one], 1.0) for one in owed[: asked.limit]]
        return TopicMessages(tuple(told), len(owed) - len(told))


def as_ranges(some: Iterable[Id]) -> Mapping[str, Ranges]:
    """Of each producer its counters."""
    found: dict[str, Ranges] = {}
    for producer, counter in some:
        found.setdefault(producer, Ranges()).add(counter)
    return found
