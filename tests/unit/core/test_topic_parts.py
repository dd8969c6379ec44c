"""The parts of a copy of a topic by themselves: messages by arrival and counter, sums, keys of rows.

Knows: each part alone.  Does not know a topic.
"""

from __future__ import annotations

import random
from array import array

import pytest

from distkv.core.topics.digests import BUCKETS, bucket_of_message, counters_of_bucket
from distkv.core.topics.messages import SLACK, Messages
from distkv.core.topics.producers import ORDER_WAIT_MS, TopicProducer
from distkv.errors import DecodeError
from distkv.model.ranges import Ranges
from distkv.wire.topic_fields import COUNTER_MAX
from distkv.wire.topic_rows import (
    RowKey,
    done_key,
    kept_key,
    message_key,
    producer_key,
    read_key,
    split_key,
    subscriber_key,
)
from tests.profiles import seeds


@pytest.mark.parametrize("seed", seeds(10))
def test_messages_are_what_a_plain_list_has(seed: int) -> None:
    rng, messages = random.Random(seed), Messages()
    expected = dict[int, tuple[str, int, int]]()
    for _ in range(600):
        producer, counter = rng.choice("pq"), rng.randrange(1, 200)
        if rng.random() < 0.6:
            if messages.arrival_of(producer, counter) is None:
                size = rng.randrange(1000)
                expected[messages.add(producer, counter, size)] = producer, counter, size
        else:
            end = counter + rng.randrange(8)
            gone = {arrival for _, arrival in messages.remove(producer, counter, end)}
            inside = {at for at, (by, number, _) in expected.items() if by == producer and counter <= number < end}
            assert gone == inside
            expected = {at: one for at, one in expected.items() if at not in gone}
        messages.check()
    assert [*messages.between(0, messages.last + 1)] == [(at, *one[:2]) for at, one in expected.items()]
    some = Ranges.from_ticks(sorted(rng.sample(sorted(expected), len(expected) // 2)))
    assert messages.bytes_of(some) == sum(expected[at][2] for at in some)
    assert [at for at, *_ in messages.among(some)] == [*some]


def test_messages_that_went_leave_nothing_behind_an_old_one() -> None:
    messages = Messages()
    messages.add("p", 1, 1)
    for counter in range(2, 10_000):
        messages.add("p", counter, 1)
        messages.remove("p", counter, counter + 1)
    messages.check()  # which looks at how many that went are kept
    assert len(messages) == 1 <= SLACK


def test_message_gets_another_size_and_no_other_does() -> None:
    messages = Messages()
    arrivals = [messages.add("p", counter, 10) for counter in (1, 2, 3)]
    messages.resize(arrivals[1], 15)
    assert ([messages.size_of(one) for one in arrivals], messages.bytes) == ([10, 15, 10], 35)
    messages.check()


@pytest.mark.parametrize("seed", seeds(5))
def test_each_message_is_in_one_bucket(seed: int) -> None:
    rng = random.Random(seed)
    near = sorted({rng.randrange(1, 100_000) for _ in range(200)})
    counters = array("q", [*near, *sorted(rng.randrange(2**40, COUNTER_MAX) for _ in range(20)), COUNTER_MAX])
    found = [(bucket, one) for bucket in range(BUCKETS) for one in counters_of_bucket("p", counters, bucket)]
    assert sorted(found) == sorted((bucket_of_message("p", one), one) for one in counters)


def test_waits_of_a_producer_are_bounded_and_end() -> None:
    producer = TopicProducer()
    for counter in range(2, 5000, 2):
        producer.sees(counter, 1, counter * 7, gaps_max=10_000)
        producer.check()
    last_ms = 5000 * 7
    first, more_ms = producer.open_to(last_ms)
    assert first < 5000
    assert more_ms is not None
    assert last_ms < more_ms <= last_ms + ORDER_WAIT_MS
    assert producer.open_to(last_ms + ORDER_WAIT_MS) == (4999, None)


def test_snapshot_of_what_was_seen_stays_as_it_was() -> None:
    producer = TopicProducer()
    producer.sees(1, 1, 0, 10)
    before = producer.snapshot()
    assert producer.snapshot() is before
    producer.sees(2, 1, 0, 10)
    assert ([*before], [*producer.snapshot()]) == ([1], [1, 2])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (message_key("p", COUNTER_MAX), RowKey("m", "p", "", COUNTER_MAX)),
        (producer_key("é x"), RowKey("p", "é x")),
        (subscriber_key("c"), RowKey("s", "c")),
        (done_key("c", "p"), RowKey("d", "c", "p")),
        ("t", RowKey("t")),
    ],
)
def test_key_says_what_its_row_is_about(key: str, expected: RowKey) -> None:
    assert read_key(key) == expected
    assert split_key(kept_key("0123456789abcdef", key)) == ("0123456789abcdef", key)


@pytest.mark.parametrize(
    "key",
    ["", "m", "x\x1fp", "m\x1fp", "m\x1fp\x1f1", "m\x1fp\x1f" + "0" * 16, "m\x1fp\x1f" + "f" * 16, "p\x1f", "t\x1fp",
     "m\x1fp\x1f000000000000000A", "p\x1f" + "x" * 256, "s\x1fa\x1fb", "p\x1fa\nb"],
)  # fmt: skip
def test_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(DecodeError):
        read_key(key)


@pytest.mark.parametrize("kept", ["", "m", "m\x1f0123", "m\x1f0123456789abcdeG\x1fp", "m\x1f0123456789abcdef0\x1fp"])
def test_key_of_the_disk_without_an_id_is_refused(kept: str) -> None:
    with pytest.raises(DecodeError):
        split_key(kept)
