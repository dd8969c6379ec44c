"""The judge of what many clients of the activity network write down finds what is wrong, and nothing else.

Knows: lines as `crowd.c` writes them.
"""

from __future__ import annotations

import pytest

from tests.process.activity_program import MOVES_MAX, CrowdStory

RIGHT = ("echo 0.0 1 3", "echo 0.0 5 6", "got 0 0 0.0 1 6", "got 3 1 0.0 2 5", "got 3 2 0.0 6 6", "got 1 0 0.0 1 7")


def story(*lines: str) -> CrowdStory:
    found = CrowdStory()
    for line in lines:
        found.take(line)
    return found


def test_all_that_was_echoed_once_in_order_is_right() -> None:
    assert story(*RIGHT).wrong() == []


@pytest.mark.parametrize(
    "line",
    [
        "got 2 0 0.0 1 4",  # the last ones are missing
        "got 2 0 0.0 2 6",  # the first one
        "got 0 0 0.0 6 6",  # again
        "got 1 0 0.0 3 4",  # in another order
        "again 0 a.0123 4",
        "echo 4.0 1 1",  # nobody was told
    ],
)
def test_what_is_missing_or_comes_again_is_wrong(line: str) -> None:
    assert story(*RIGHT, line).wrong() != []


def test_hole_within_a_connection_that_does_not_resume_is_wrong() -> None:
    assert story(*RIGHT, "got 8 1 0.0 1 2", "got 8 1 0.0 5 6").wrong() != []


def test_story_without_an_echo_is_wrong() -> None:
    assert story("got 0 0 0.0 1 1").wrong() != []


def test_node_that_sends_on_many_at_once_is_named() -> None:
    moves = [f"move {at} 1 2500 7000 0" for at in range(MOVES_MAX + 1)]
    assert story(*moves[1:], "move 9 1 2600 7000 1").crowded_moves() == {}
    assert story(*moves).crowded_moves() == {(7000, 2): MOVES_MAX + 1}
