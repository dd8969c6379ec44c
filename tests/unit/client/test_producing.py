"""The producer's half: numbers, floors, tags and names, and what is sent again."""

from __future__ import annotations

import random

import pytest

from distkv.client.producing import (
    OPEN_MAX,
    ProducerNews,
    ProducerState,
    Producing,
    PutAnswered,
    PutOpen,
    PutRefused,
    StreamRenamed,
)
from distkv.errors import BadValueError, BusyError, DistkvError, NotReadyError, UnreachableError
from distkv.wire.topic_errors import BacklogError, NoReplicasError, TakenError
from distkv.wire.topic_replies import TopicPutDone
from distkv.wire.topic_requests import TopicPut

VALUE = b"\x01"
LOST = UnreachableError("no server answers")


class Producer:
    """A half, with a state that is written at once."""

    def __init__(self, state: ProducerState | None = None, seed: int = 1) -> None:
        self.state = state or ProducerState()
        self.half = Producing("meter", self.state, random.Random(seed).randbytes)
        self.now_ms = 0

    def write(self) -> None:
        if (change := self.half.take_change()) is not None:
            self.state = self.state.with_change(change)
            self.half.committed()

    def send(self) -> list[tuple[int, TopicPut]]:
        self.write()
        self.half.check()
        return self.half.take_questions(self.now_ms)

    def answer(self, call: int, put: TopicPut, error: DistkvError | None = None) -> list[ProducerNews]:
        done = TopicPutDone(put.producer or "", put.counter or 0, False, 2)
        self.half.answered(call, error or done, self.now_ms)
        self.write()
        self.half.check()
        return self.half.take_news()


def test_put_is_not_sent_before_it_is_written() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    assert producer.half.take_questions(0) == []
    producer.half.take_change()
    assert producer.half.take_questions(0) == []
    producer.half.committed()
    ((_, put),) = producer.half.take_questions(0)
    assert (put.topic, put.counter, put.floor, len(put.tag or b"")) == ("log", 1, 1, 8)


def test_new_state_takes_a_name_of_its_own() -> None:
    names = set()
    for seed in range(5):
        producer = Producer(seed=seed)
        producer.half.put("log", VALUE)
        names.add(producer.send()[0][1].producer)
    assert len(names) == 5
    assert all(name is not None and name.startswith("meter~") and len(name) == 14 for name in names)


def test_answered_put_is_told_and_not_sent_again() -> None:
    producer = Producer()
    number = producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    news = producer.answer(call, put)
    assert news == [PutAnswered(number, "log", put.producer or "", 1, False, 2)]
    assert not producer.half.has_open
    assert Producer(producer.state).send() == []


def test_second_put_names_the_first_one_as_floor_while_that_is_open() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((call, first),) = producer.send()
    producer.half.put("log", VALUE)
    ((_, second),) = producer.send()
    assert (second.counter, second.floor) == (2, 1)
    producer.answer(call, first)
    producer.half.put("log", VALUE)
    ((_, third),) = producer.send()
    assert (third.counter, third.floor) == (3, 2)


def test_restart_sends_what_is_unanswered_again_with_its_number_and_tag() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((_, put),) = producer.send()
    again = Producer(producer.state, seed=2)
    assert [request for _, request in again.send()] == [put]


def test_restart_goes_on_behind_the_last_number() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    producer.answer(call, put)
    again = Producer(producer.state, seed=2)
    again.half.put("log", VALUE)
    ((_, next_one),) = again.send()
    assert (next_one.producer, next_one.counter) == (put.producer, 2)


def test_no_more_than_32_puts_of_a_topic_are_under_way() -> None:
    producer = Producer()
    numbers = [producer.half.put("log", VALUE) for _ in range(OPEN_MAX + 5)]
    calls = producer.send()
    assert len(calls) == OPEN_MAX
    for call, put in calls[1:]:
        producer.answer(call, put)
    assert producer.send() == []  # the first one's number is 32 below
    news = producer.answer(*calls[0])
    assert [one.number for one in news if isinstance(one, PutAnswered)] == numbers[:1]
    assert len(producer.send()) == 5


def test_another_topic_has_numbers_and_room_of_its_own() -> None:
    producer = Producer()
    for _ in range(OPEN_MAX + 1):
        producer.half.put("log", VALUE)
    producer.half.put("bill", VALUE)
    assert [put.counter for _, put in producer.send() if put.topic == "bill"] == [1]


def test_taken_number_takes_another_name_and_puts_the_message_again() -> None:
    producer = Producer()
    number = producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    news = producer.answer(call, put, TakenError("taken"))
    ((call, again),) = producer.send()
    assert news == [StreamRenamed("log", put.producer or "", again.producer or "")]
    assert again.producer != put.producer
    assert (again.counter, again.value) == (1, VALUE)
    (answered,) = producer.answer(call, again)
    assert answered == PutAnswered(number, "log", again.producer or "", 1, False, 2, was=put.producer)


def test_new_name_is_written_before_it_is_used() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((call, _),) = producer.send()
    producer.half.answered(call, TakenError("taken"), 0)
    assert producer.half.take_questions(10_000) == []


def test_all_that_is_taken_goes_to_one_new_name() -> None:
    producer = Producer()
    for _ in range(3):
        producer.half.put("log", VALUE)
    for call, put in producer.send():
        producer.half.answered(call, TakenError("taken"), 0)
        assert put.counter is not None
    renamed = [put for _, put in producer.send()]
    assert len({put.producer for put in renamed}) == 1
    assert [put.counter for put in renamed] == [1, 2, 3]


def test_new_name_has_room_for_what_waited_behind_the_old_one() -> None:
    producer = Producer()
    numbers = [producer.half.put("log", VALUE) for _ in range(OPEN_MAX + 1)]
    calls = producer.send()
    for call, put in calls[1:]:
        producer.answer(call, put)
    producer.answer(*calls[0], TakenError("taken"))
    assert [put.counter for _, put in producer.send()] == [1, 2]
    assert [*producer.half.open_puts("log")] == [numbers[0], numbers[-1]]


def test_what_may_still_be_taken_has_room_under_the_new_name() -> None:
    producer = Producer()
    for _ in range(2):
        producer.half.put("log", VALUE)
    (old, kept) = producer.send()
    producer.answer(*old, TakenError("taken"))
    producer.send()  # it stays unanswered
    for _ in range(2 * OPEN_MAX):
        producer.half.put("log", VALUE)
    for call, put in producer.send():
        producer.answer(call, put)
    producer.answer(*kept, TakenError("taken"))
    assert max(put.counter or 0 for put in producer.state.puts.values()) == OPEN_MAX


@pytest.mark.parametrize("error", [BusyError("busy"), LOST, NoReplicasError("two copies")])
def test_put_that_failed_for_now_is_sent_again_later(error: DistkvError) -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    assert producer.answer(call, put, error) == []
    assert producer.send() == []
    wake_ms = producer.half.wake_ms()
    assert wake_ms is not None
    producer.now_ms = wake_ms
    assert [request for _, request in producer.send()] == [put]


def test_put_that_is_refused_for_good_is_over_and_its_number_is_not_used_again() -> None:
    producer = Producer()
    number = producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    error = BadValueError("no value")
    assert producer.answer(call, put, error) == [PutRefused(number, error, may_have_happened=False)]
    producer.half.put("log", VALUE)
    assert [request.counter for _, request in producer.send()] == [2]


def test_refusal_is_told_when_the_state_has_it() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((call, _),) = producer.send()
    producer.half.answered(call, BadValueError("no value"), 0)
    assert producer.half.take_news() == []
    producer.write()
    assert len(producer.half.take_news()) == 1
    assert Producer(producer.state).send() == []


def test_refusal_after_a_lost_answer_says_that_it_may_have_happened() -> None:
    producer = Producer()
    number = producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    producer.answer(call, put, LOST)
    producer.now_ms = 10_000
    ((call, put),) = producer.send()
    error = BadValueError("no value")
    assert producer.answer(call, put, error) == [PutRefused(number, error, may_have_happened=True)]


def test_refusal_of_what_a_connection_sent_twice_says_that_it_may_have_happened() -> None:
    producer = Producer()
    number = producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    producer.half.repeated(call)
    error = BadValueError("no value")
    assert producer.answer(call, put, error) == [PutRefused(number, error, may_have_happened=True)]


def test_backlog_after_a_lost_answer_is_no_refusal() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    producer.answer(call, put, LOST)
    producer.now_ms = 10_000
    ((call, put),) = producer.send()
    assert producer.answer(call, put, BacklogError("bill has too much")) == []
    assert producer.half.has_open


@pytest.mark.parametrize("error", [LOST, NotReadyError("what it had begun may be done")])
def test_put_that_nobody_waits_for_is_kept_when_it_may_have_happened(error: DistkvError) -> None:
    producer = Producer()
    number = producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    producer.answer(call, put, error)
    producer.half.give_up(number)
    assert producer.half.take_news() == [PutOpen(number, "log", error)]
    assert [request for _, request in Producer(producer.state).send()] == [put]


def test_put_that_nobody_waits_for_is_withdrawn_when_nothing_happened() -> None:
    producer = Producer()
    number = producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    busy = BusyError("busy")
    producer.answer(call, put, busy)
    producer.half.give_up(number)
    producer.write()
    assert producer.half.take_news() == [PutRefused(number, busy, may_have_happened=False)]
    assert Producer(producer.state).send() == []


def test_put_that_had_no_turn_is_refused_when_nobody_waits_for_it() -> None:
    producer = Producer()
    numbers = [producer.half.put("log", VALUE) for _ in range(OPEN_MAX + 1)]
    producer.half.give_up(numbers[-1])
    (news,) = producer.half.take_news()
    assert isinstance(news, PutRefused)
    assert news.number == numbers[-1]


def test_broken_connection_sends_all_again() -> None:
    producer = Producer()
    for _ in range(3):
        producer.half.put("log", VALUE)
    sent = [put for _, put in producer.send()]
    producer.half.disconnected(0)
    producer.now_ms = 10_000
    assert [put for _, put in producer.send()] == sent


def test_answer_of_a_former_connection_means_nothing() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((call, put),) = producer.send()
    producer.half.disconnected(0)
    assert producer.answer(call, put) == []
    assert producer.half.has_open


def test_answer_about_another_message_is_none() -> None:
    producer = Producer()
    producer.half.put("log", VALUE)
    ((call, _),) = producer.send()
    producer.half.answered(call, TopicPutDone("other", 1, False, 1), 0)
    assert producer.half.take_news() == []
    assert producer.half.has_open
