"""The consumer's half: how it begins, what it hands out, and what it says is done."""

from __future__ import annotations

import pytest

from distkv.client.consuming import (
    ConsumerRequest,
    ConsumerState,
    Consuming,
    MessagesGone,
    SubscriptionEnded,
)
from distkv.client.consuming_messages import SAID_MAX
from distkv.errors import BusyError, DistkvError, NotFoundError, UnreachableError
from distkv.model.ranges import Ranges
from distkv.wire.topic_bodies import flat_map
from distkv.wire.topic_errors import AwayError, stale_op
from distkv.wire.topic_fields import OP_MAX
from distkv.wire.topic_replies import TopicMessage, TopicMessages, TopicReply, TopicSubscribed
from distkv.wire.topic_requests import TopicGet, TopicSubscribe, TopicUnsubscribe

TIME_MS = 1_700_000_000_000
NONE = NotFoundError("not subscribed")


def ranges(*counters: int) -> Ranges:
    return Ranges.from_ticks(counters)


def message(counter: int, producer: str = "a") -> TopicMessage:
    return TopicMessage(producer, counter, b"\x01", 1.0)


def messages(*counters: int) -> TopicMessages:
    return TopicMessages(tuple([message(counter) for counter in counters]))


class Consumer:
    """A half, with a state that is written at once."""

    def __init__(self, state: ConsumerState | None = None, *, subscribes: bool = True) -> None:
        self.state = state or ConsumerState()
        self.half = Consuming("log", "bill", self.state, TIME_MS, subscribes=subscribes)
        self.now_ms = 0

    def write(self) -> None:
        if (change := self.half.take_change()) is not None:
            self.state = self.state.with_change(change)
            self.half.committed()

    def ask(self) -> ConsumerRequest | None:
        """What it asks next, if anything."""
        self.write()
        self.half.check()
        asked = self.half.take_questions(self.now_ms)
        self.call = asked[0][0] if asked else 0
        return asked[0][1] if asked else None

    def answer(self, *results: TopicReply | DistkvError) -> list[ConsumerRequest | None]:
        """Answer one after the other; what it asked each time."""
        asked = []
        for result in results:
            asked.append(self.ask())
            self.half.answered(self.call, result, self.now_ms)
            self.now_ms += 10_000
        self.write()
        self.half.check()
        return asked

    def begin(self, *counters: int) -> None:
        """It is subscribed, and asks for messages."""
        self.half.want(limit=10)
        self.answer(messages(), stale_op(7), TopicSubscribed(7, False, 2, {}))
        if counters:
            self.answer(messages(*counters))

    def finish(self, counter: int) -> None:
        self.state = self.state.with_change(self.half.change_of("a", counter))
        self.half.done("a", counter)


def test_new_consumer_subscribes_by_the_time() -> None:
    consumer = Consumer()
    consumer.half.want()
    looked, subscribed = consumer.answer(NONE, TopicSubscribed(TIME_MS, True, 2, {}))
    assert isinstance(looked, TopicGet)
    assert subscribed == TopicSubscribe(0, "log", "bill", TIME_MS, {})
    assert consumer.state == ConsumerState(TIME_MS, True, {})


def test_subscription_is_written_before_it_is_asked_for() -> None:
    consumer = Consumer()
    consumer.half.want()
    consumer.ask()
    consumer.half.answered(consumer.call, NONE, 0)
    assert consumer.half.take_questions(0) == []
    change = consumer.half.take_change()
    assert change is not None
    assert change.op == TIME_MS
    assert consumer.half.take_questions(0) == []


def test_new_subscription_is_above_what_servers_know() -> None:
    consumer = Consumer()
    consumer.half.want()
    consumer.answer(NONE, stale_op(TIME_MS + 5))
    assert consumer.ask() == TopicSubscribe(0, "log", "bill", TIME_MS + 6, {})


def test_subscription_above_which_there_is_no_number_is_refused_and_asked_for_no_more() -> None:
    consumer = Consumer()
    consumer.half.want()
    error = stale_op(OP_MAX)
    consumer.answer(NONE, error)
    assert consumer.half.take_news() == [SubscriptionEnded(error)]
    assert consumer.ask() is None


def test_consumer_without_state_goes_on_with_the_subscription_that_is_there() -> None:
    consumer = Consumer()
    consumer.half.want()
    asked = consumer.answer(messages(1), stale_op(7), TopicSubscribed(7, False, 2, {}))
    assert [one.op for one in asked if isinstance(one, TopicSubscribe)] == [1, 7]
    assert consumer.half.next_message() == message(1)


def test_operation_that_no_server_confirmed_is_not_repeated_over_an_older_subscription() -> None:
    consumer = Consumer(ConsumerState(TIME_MS - 1, False, {}))
    consumer.half.want()
    consumer.answer(messages())
    asked = consumer.ask()
    assert isinstance(asked, TopicSubscribe)
    assert asked.op == 1


def test_what_servers_know_as_done_is_written_before_anything_is_handed_out_or_said() -> None:
    consumer = Consumer(ConsumerState(7, True, {"a": ranges(1)}))
    consumer.half.want(limit=5)
    consumer.answer(messages(1, 2, 3))
    asked = consumer.ask()
    assert asked == TopicSubscribe(0, "log", "bill", 7, {"a": ranges(1)})
    consumer.half.answered(consumer.call, TopicSubscribed(7, False, 2, flat_map({"a": ranges(2)})), 0)
    consumer.half.say()
    assert consumer.half.next_message() is None
    assert consumer.half.take_questions(0) == []
    consumer.write()
    assert consumer.state.done == {"a": ranges(1, 2)}
    assert consumer.half.next_message() == message(3)
    assert consumer.ask() == TopicGet(0, "log", "bill", (("a", 1),))


def test_messages_are_handed_out_once() -> None:
    consumer = Consumer()
    consumer.begin(1, 2)
    assert [consumer.half.next_message() for _ in range(3)] == [message(1), message(2), None]
    consumer.half.want()
    consumer.answer(messages(1, 2, 3))
    assert [consumer.half.next_message() for _ in range(2)] == [message(3), None]


def test_message_that_is_done_in_the_state_is_not_handed_out_and_said_to_be_done() -> None:
    consumer = Consumer(ConsumerState(7, True, {"a": ranges(1)}))
    consumer.half.want()
    consumer.answer(messages(), TopicSubscribed(7, False, 2, {}), messages(1))
    assert consumer.half.next_message() is None
    consumer.half.want()
    asked = consumer.ask()
    assert isinstance(asked, TopicGet)
    assert asked.done == (("a", 1),)


def test_done_is_said_with_the_next_get_until_that_is_answered() -> None:
    consumer = Consumer()
    consumer.begin(1)
    consumer.half.next_message()
    consumer.finish(1)
    consumer.half.want()
    first, second = consumer.answer(UnreachableError("no answer"), messages())
    assert isinstance(first, TopicGet)
    assert first == second
    assert first.done == (("a", 1),)
    consumer.half.say()
    assert consumer.ask() is None


def test_done_is_said_at_the_end_without_wanting_more() -> None:
    consumer = Consumer()
    consumer.begin(1)
    consumer.half.next_message()
    consumer.finish(1)
    assert consumer.ask() is None
    consumer.half.say()
    (asked,) = consumer.answer(messages())
    assert isinstance(asked, TopicGet)
    assert (asked.done, asked.wait_s) == ((("a", 1),), 0.0)
    assert not consumer.half.is_busy


def test_messages_that_are_handed_out_are_asked_beyond() -> None:
    consumer = Consumer()
    consumer.begin(1, 2)
    consumer.half.next_message()
    consumer.half.next_message()
    consumer.half.want(limit=5)
    asked = consumer.ask()
    assert isinstance(asked, TopicGet)
    assert asked.limit == 7


def test_answer_with_nothing_new_is_not_asked_for_again_at_once() -> None:
    consumer = Consumer()
    consumer.begin(1)
    consumer.half.next_message()
    consumer.half.want()
    consumer.ask()
    consumer.half.answered(consumer.call, messages(1), consumer.now_ms)
    consumer.half.want()
    assert consumer.ask() is None
    wake_ms = consumer.half.wake_ms()
    assert wake_ms is not None
    assert wake_ms > consumer.now_ms


def test_what_is_gone_is_told_and_counts_as_done() -> None:
    consumer = Consumer()
    consumer.begin()
    consumer.answer(TopicMessages((message(3),), 0, flat_map({"a": ranges(1, 2)})))
    assert consumer.half.take_news() == [MessagesGone({"a": ranges(1, 2)})]
    assert consumer.state.done == {"a": ranges(1, 2)}
    consumer.half.want()
    consumer.half.next_message()
    consumer.answer(messages(1))
    assert consumer.half.next_message() is None


def test_what_is_gone_is_said_to_be_done_and_told_once() -> None:
    """The answer that said so may have been lost, so it comes again until then."""
    consumer = Consumer()
    consumer.begin()
    gone = TopicMessages((), 0, flat_map({"a": ranges(1)}))
    consumer.answer(gone)
    consumer.half.take_news()
    consumer.half.want()
    assert consumer.answer(gone) == [TopicGet(0, "log", "bill", (("a", 1),))]
    assert consumer.half.take_news() == []


def test_many_that_are_gone_are_said_some_at_a_time() -> None:
    consumer = Consumer()
    consumer.begin()
    consumer.answer(TopicMessages((), 0, flat_map({"a": Ranges([(1, 1 << 60)])})))
    consumer.half.want()
    (question,) = consumer.answer(messages(1))
    assert isinstance(question, TopicGet)
    assert len(question.done) == SAID_MAX


def test_subscription_that_ended_elsewhere_is_told_and_not_begun_anew() -> None:
    consumer = Consumer(ConsumerState(7, True, {}))
    consumer.half.want()
    consumer.answer(NONE)
    assert consumer.half.take_news() == [SubscriptionEnded(NONE)]
    assert consumer.ask() is None
    consumer.half.want()
    assert consumer.answer(NONE) == [TopicGet(0, "log", "bill")]
    assert consumer.half.take_news() == [SubscriptionEnded(NONE)]


def test_subscribe_begins_anew_what_ended() -> None:
    consumer = Consumer(ConsumerState(7, True, {}))
    consumer.half.want()
    consumer.answer(NONE)
    consumer.half.subscribe()
    _, asked = consumer.answer(NONE, TopicSubscribed(TIME_MS, True, 2, {}))
    assert isinstance(asked, TopicSubscribe)
    assert asked.op == TIME_MS
    assert not consumer.half.is_busy


def test_consumer_that_does_not_subscribe_is_refused() -> None:
    consumer = Consumer(subscribes=False)
    consumer.half.want()
    consumer.answer(NONE)
    assert consumer.half.take_news() == [SubscriptionEnded(NONE)]


def test_subscription_is_repeated_where_its_holders_are_away() -> None:
    consumer = Consumer()
    consumer.begin()
    consumer.half.want()
    (_, repeated, asked) = consumer.answer(AwayError("b is away"), TopicSubscribed(7, True, 1, {}), messages(4))
    assert isinstance(repeated, TopicSubscribe)
    assert repeated.op == 7
    assert isinstance(asked, TopicGet)
    assert consumer.half.next_message() == message(4)


def test_new_subscription_that_is_asked_for_begins_where_nodes_are_away() -> None:
    consumer = Consumer()
    consumer.half.subscribe()
    (_, begun) = consumer.answer(AwayError("b is away"), TopicSubscribed(TIME_MS, True, 1, {}))
    assert begun == TopicSubscribe(0, "log", "bill", TIME_MS, {})
    assert consumer.state == ConsumerState(TIME_MS, True, {})


def test_consumer_that_only_wants_messages_does_not_subscribe_while_nodes_are_away() -> None:
    consumer = Consumer()
    consumer.half.want()
    asked = consumer.answer(AwayError("b is away"), AwayError("b is away"))
    assert {type(request) for request in asked} == {TopicGet}


def test_newer_operation_of_somebody_else_is_taken_over() -> None:
    consumer = Consumer(ConsumerState(7, True, {}))
    consumer.half.want()
    consumer.answer(messages(1), stale_op(9), TopicSubscribed(9, False, 2, {}))
    assert consumer.state.op == 9


def test_unsubscribe_is_numbered_above_and_over_when_it_is_answered() -> None:
    consumer = Consumer(ConsumerState(TIME_MS + 7, True, {}))
    consumer.half.unsubscribe()
    (asked,) = consumer.answer(TopicSubscribed(TIME_MS + 8, True, 2))
    assert asked == TopicUnsubscribe(0, "log", "bill", TIME_MS + 8)
    assert consumer.state == ConsumerState(TIME_MS + 8, False, {})
    assert (consumer.half.is_busy, consumer.half.take_news()) == (False, [])


@pytest.mark.parametrize("error", [BusyError("busy"), UnreachableError("no answer"), AwayError("away")])
def test_first_question_that_failed_for_now_is_asked_again_later(error: DistkvError) -> None:
    consumer = Consumer()
    consumer.half.want()
    first = consumer.ask()
    consumer.half.answered(consumer.call, error, 0)
    assert consumer.ask() is None
    consumer.now_ms = consumer.half.wake_ms() or 0
    assert consumer.ask() == first


def test_whoever_was_interrupted_wants_nothing_any_more() -> None:
    consumer = Consumer()
    consumer.begin()
    consumer.half.want(wait_s=3600.0)
    consumer.ask()
    consumer.half.interrupted(0)
    assert not consumer.half.is_busy
    consumer.half.check()


def test_change_that_was_taken_and_may_not_be_written_is_taken_again() -> None:
    consumer = Consumer()
    consumer.half.want()
    consumer.answer(messages(), stale_op(7))
    consumer.ask()
    consumer.half.answered(consumer.call, TopicSubscribed(7, False, 2, {"a": (1, 2)}), 0)
    taken = consumer.half.take_change()
    assert taken is not None
    consumer.half.interrupted(0)
    assert consumer.half.take_change() == taken


def test_consumer_that_unsubscribed_does_not_subscribe_when_messages_are_wanted() -> None:
    consumer = Consumer()
    consumer.half.unsubscribe()
    consumer.answer(TopicSubscribed(TIME_MS, True, 2, None))
    consumer.half.want()
    consumer.answer(NONE)
    assert consumer.ask() is None
    [ended] = consumer.half.take_news()
    assert ended == SubscriptionEnded(NONE)


def test_broken_connection_asks_the_same_again() -> None:
    consumer = Consumer()
    consumer.begin()
    consumer.half.want(wait_s=5.0)
    first = consumer.ask()
    consumer.half.disconnected(0)
    consumer.now_ms += 10_000
    assert consumer.ask() == first
