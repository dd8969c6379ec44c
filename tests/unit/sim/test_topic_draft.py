"""What a seed draws of topics, and how a scenario file writes it.

Knows: `distkv.sim.topics.draft` and `actions`.
"""

from __future__ import annotations

import shlex

import pytest

from distkv.sim.topics.actions import (
    VERBS,
    CrashClient,
    GetOnce,
    PutOnce,
    SendMessages,
    StateLeft,
    TopicAction,
    TwinClient,
)
from distkv.sim.topics.draft import FIRST_SEED, draw
from distkv.sim.words import Words
from tests.profiles import size

NAMES = ["n0", "n1", "n2"]
LENGTH_MS = 150_000


def _all() -> list[TopicAction]:
    drawn = [draw(seed, NAMES, LENGTH_MS) for seed in range(FIRST_SEED, FIRST_SEED + size(40, 200))]
    return [action for one in drawn if one is not None for _, action in one.planned if isinstance(action, TopicAction)]


def test_seeds_have_topics_from_the_first_such_on() -> None:
    assert draw(FIRST_SEED - 1, NAMES, LENGTH_MS) is None
    assert draw(FIRST_SEED, NAMES, LENGTH_MS) is not None


def test_seed_draws_the_same_each_time() -> None:
    assert draw(FIRST_SEED, NAMES, LENGTH_MS) == draw(FIRST_SEED, NAMES, LENGTH_MS)


def test_clients_are_drawn_that_lose_or_copy_their_states() -> None:
    found = _all()
    assert {one.left for one in found if isinstance(one, CrashClient)} == set(StateLeft)
    assert any(isinstance(one, TwinClient) for one in found)


def test_no_value_is_put_twice() -> None:
    drawn = draw(FIRST_SEED, NAMES, LENGTH_MS)
    assert drawn is not None
    values = [action.value for _, action in drawn.planned if isinstance(action, PutOnce)]
    assert len(values) == len(set(values))


def test_what_is_written_of_an_action_is_read_as_the_same_one() -> None:
    for action in _all()[:2000]:
        (verb,) = (one for one in VERBS if one.makes is type(action) and one.is_for(action))
        words = [word for form in verb.forms for word in form.write(action)]
        assert verb.read(Words(shlex.split(" ".join(words)), 5000)) == action


@pytest.mark.parametrize(("line", "action"), [
    ("put a t hello by p counter 3", PutOnce("a", "t", "hello", "p", 3)),
    ("get a t s limit 5 wait 2s done", GetOnce("a", "t", "s", 5, 2000, says_done=True)),
    ("send p 7", SendMessages("p", 7)),
    ("crash-client c 2s state old", CrashClient("c", 2000, StateLeft.OLD)),
])  # fmt: skip
def test_line_is_read(line: str, action: TopicAction) -> None:
    verb, *words = line.split()
    (form,) = (one for one in VERBS if one.name == verb)
    assert form.read(Words(words, 5000)) == action


def test_producer_goes_with_a_counter() -> None:
    (form,) = (one for one in VERBS if one.name == "put")
    with pytest.raises(ValueError, match="goes with a counter"):
        form.read(Words(["a", "t", "hello", "by", "p"], 5000))
