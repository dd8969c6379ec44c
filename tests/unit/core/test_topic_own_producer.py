"""The numbers that a node gives messages which were put without a producer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.ground.turn import ServiceTurn, SlotKept
from distkv.core.topics.own_producer import AHEAD, SLOT, OwnProducer
from distkv.model.event import NodeName
from tests.profiles import examples

ME = NodeName("a")
TOPICS_MAX = 2


def began(slots: dict[str, bytes], seed: int = 1) -> OwnProducer:
    return OwnProducer(ME, slots, TOPICS_MAX, Random(seed))


def numbered(producer: OwnProducer, topic: str, slots: dict[str, bytes]) -> int:
    turn = ServiceTurn("topics", 0, 0.0)
    number = producer.next_counter(turn, topic)
    for effect in turn.effects:
        assert isinstance(effect, SlotKept)
        assert effect.value is not None
        slots[effect.key] = effect.value
    producer.check()
    return number


def test_numbers_of_a_topic_follow_one_another() -> None:
    """ANSWER-2."""
    producer, slots = began({}), dict[str, bytes]()
    assert [numbered(producer, "t", slots) for _ in range(3)] == [1, 2, 3]


def test_topic_begins_above_the_numbers_of_all_others() -> None:
    producer, slots = began({}), dict[str, bytes]()
    assert [numbered(producer, topic, slots) for topic in "ttut"] == [1, 2, 3, 3]


def test_slot_is_written_once_for_many_numbers() -> None:
    producer, slots = began({}), dict[str, bytes]()
    for _ in range(AHEAD):
        numbered(producer, "t", slots)
    name = producer.name.partition(".")[2]
    assert slots == {SLOT: f"{name} {1 + AHEAD}".encode()}


def test_start_without_what_was_kept_takes_another_name() -> None:
    assert began({}, seed=1).name != began({}, seed=2).name


def test_start_with_what_was_kept_takes_the_same_name() -> None:
    slots = dict[str, bytes]()
    first = began(slots)
    numbered(first, "t", slots)
    assert began(slots, seed=2).name == first.name


@pytest.mark.parametrize("kept", [b"x", b"", b"\xff 3", b"00000000 x", b"0 3", "00000000 \u0663".encode()])
def test_slot_that_cannot_be_read_counts_as_none(kept: bytes) -> None:
    slots = {SLOT: kept}
    assert numbered(began(slots), "t", slots) == 1


@examples(100)
@given(st.lists(st.sampled_from(["t", "u", "v", "w", "start"]), max_size=60))
def test_no_number_of_a_topic_is_given_twice_whenever_the_node_starts_again(doings: list[str]) -> None:
    """ANSWER-2."""
    slots = dict[str, bytes]()
    producer, given_numbers = began(slots), set[tuple[str, int]]()
    for what in doings:
        if what == "start":
            producer = began(slots)
            continue
        found = what, numbered(producer, what, slots)
        assert found not in given_numbers
        given_numbers.add(found)
