"""What somebody asks a node about a topic, once, without a state.

Knows: which request each action is, and what is said of its answer.  Does not know what is right.

Invariant: each request goes to one node, and is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from distkv.core.ready import Answer, ServiceResult
from distkv.errors import DistkvError
from distkv.sim.fleet import Fleet
from distkv.sim.topics.actions import DropTopic, GetOnce, LimitTopic, OnceAsked, PutOnce, SubscribeOnce
from distkv.sim.topics.connections import give_request
from distkv.sim.topics.moments import (
    GetSent,
    GetTold,
    Identity,
    MessageRecorded,
    PutDenied,
    PutSent,
    PutStored,
    SubscriptionSent,
    SubscriptionTaken,
    TopicLimited,
)
from distkv.sim.topics.producers import is_certain
from distkv.wire.topic_bodies import counters_of
from distkv.wire.topic_replies import TopicMessages, TopicPutDone, TopicSubscribed
from distkv.wire.topic_requests import (
    TopicDrop,
    TopicGet,
    TopicPut,
    TopicRequest,
    TopicSet,
    TopicSubscribe,
    TopicUnsubscribe,
)
from distkv.wire.values import pack_value, unpack_value


class OnceCrowd:
    """People at nodes."""

    def __init__(self, fleet: Fleet, next_number: Callable[[], int]) -> None:
        self._fleet: Final = fleet
        self._next_number: Final = next_number
        self._got: Final = dict[tuple[str, str], tuple[int, dict[Identity, None]]]()
        """By topic and subscriber what was given, in a state that has a number."""

    def ask(self, action: OnceAsked) -> str:
        """Returns why it cannot be, if that is so."""
        process = self._fleet.hosts[action.node].process
        if process is None:
            return f"{action.node} does not run"
        request = self._request(action)
        number = self._next_number()
        self._sent(action, request, number)
        give_request(process, process.next_request(), request, partial(self._answered, action, number))
        return ""

    # -- inside

    def _request(self, action: OnceAsked) -> TopicRequest:
        topic = action.topic
        match action:
            case SubscribeOnce(subscriber=subscriber, op=op):
                return (TopicUnsubscribe if action.is_end else TopicSubscribe)(0, topic, subscriber, op)
            case PutOnce(value=value):
                return TopicPut(0, topic, pack_value(value), action.producer, action.counter, action.floor)
            case GetOnce(subscriber=subscriber):
                _, got = self._got.get((topic, subscriber), (0, {}))
                done = tuple(got) if action.says_done else ()
                return TopicGet(0, topic, subscriber, done, action.limit, action.wait_ms / 1000)
            case LimitTopic():
                keep_s = None if action.keep_ms is None else action.keep_ms / 1000
                return TopicSet(0, topic, action.min_replicas, keep_s, action.keep_bytes)
            case DropTopic():
                return TopicDrop(0, topic, force=action.is_forced)
            case _:
                assert_never(action)

    def _sent(self, action: OnceAsked, request: TopicRequest, number: int) -> None:
        moment, topic = self._fleet.moment, action.topic
        match action:
            case SubscribeOnce(subscriber=subscriber):
                moment(SubscriptionSent(topic, subscriber, not action.is_end, action.op))
            case PutOnce(value=value):
                moment(PutSent(action.node, topic, value, _identity(action)))
            case GetOnce(subscriber=subscriber):
                moment(GetSent(topic, subscriber, number, request.done if isinstance(request, TopicGet) else ()))
            case LimitTopic():
                if action.keep_ms or action.keep_bytes:
                    moment(TopicLimited(topic))
            case DropTopic():
                moment(TopicLimited(topic, is_dropped=True))
            case _:
                assert_never(action)

    def _answered(self, action: OnceAsked, number: int, answer: Answer) -> None:
        result, fleet, topic = answer.result, self._fleet, action.topic
        if isinstance(action, SubscribeOnce) and isinstance(result, TopicSubscribed):
            is_on, subscriber = not action.is_end, action.subscriber
            fleet.moment(SubscriptionTaken(topic, subscriber, is_on, result.op, result.is_changed, result.copies))
            fleet.client(subscriber, f"{'is' if is_on else 'is not'} subscribed to {topic}, {_copies(result)}")
        elif isinstance(action, PutOnce) and isinstance(result, TopicPutDone):
            identity = result.producer, result.counter
            fleet.moment(PutStored(action.node, topic, action.value, identity, result.copies))
            is_known = " already" if result.is_duplicate else ""
            fleet.client(action.node, f"has put {action.value} into {topic}{is_known}, {_copies(result)}")
        elif isinstance(action, GetOnce) and isinstance(result, TopicMessages):
            self._got_messages(action, number, result)
        elif isinstance(action, PutOnce) and isinstance(result, DistkvError):
            fleet.moment(PutDenied(action.node, topic, action.value, result.code, is_certain(result)))
            fleet.client(action.node, f"does not put {action.value} into {topic}: {result.code}")
        else:
            fleet.client(action.node, f"{_words(action)} {topic}: {_outcome(result)}")

    def _got_messages(self, action: GetOnce, number: int, result: TopicMessages) -> None:
        fleet, topic, subscriber = self._fleet, action.topic, action.subscriber
        found = [((one.producer, one.counter), str(unpack_value(one.value))) for one in result.messages]
        gone = counters_of(result.gone)
        fleet.moment(GetTold(topic, subscriber, number, tuple(found), tuple(gone.items())))
        state, got = self._got.setdefault((topic, subscriber), (self._next_number(), {}))
        for identity, value in found:
            if identity not in got:
                got[identity] = None
                fleet.moment(MessageRecorded(topic, subscriber, state, identity, value))
        got.update(dict.fromkeys((producer, counter) for producer, ranges in gone.items() for counter in ranges))
        lost = "".join([f"; gone: {len(ranges)} of {producer}" for producer, ranges in sorted(gone.items())])
        values = " ".join([value for _, value in found]) or "nothing"
        fleet.client(subscriber, f"gets {values} from {topic}, {result.left} left{lost}")


def _identity(action: PutOnce) -> Identity | None:
    return None if action.producer is None or action.counter is None else (action.producer, action.counter)


def _copies(result: TopicSubscribed | TopicPutDone) -> str:
    return f"{result.copies} {'copy' if result.copies == 1 else 'copies'}"


def _words(action: OnceAsked) -> str:
    match action:
        case SubscribeOnce():
            return "unsubscribes from" if action.is_end else "subscribes to"
        case GetOnce():
            return "gets from"
        case PutOnce():
            return "puts into"
        case LimitTopic():
            return "limits"
        case DropTopic():
            return "drops"
        case _:
            assert_never(action)


def _outcome(result: ServiceResult) -> str:
    return result.code if isinstance(result, DistkvError) else "done"
