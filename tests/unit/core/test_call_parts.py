"""Parts of long questions and answers, as a stranger may send them.

Knows: the frames alone.  Does not know how they travel.
"""

from __future__ import annotations

from struct import pack

import pytest

from distkv.core.ground.call_parts import (
    BODY_BYTES_MAX,
    CAME,
    FETCH,
    GONE,
    PART,
    PART_BYTES,
    WHOLE,
    KeptParts,
    fetch_frame,
    question_frames,
)
from distkv.core.ground.calls import CallKey
from distkv.model.event import NodeName

CALL = CallKey(NodeName("b"), 1, 7)
LONG = b"x" * (2 * PART_BYTES + 1)


def a_part(index: int, count: int, chunk: bytes = b"x") -> bytes:
    return PART + pack(">QII", 1, index, count) + chunk


@pytest.mark.parametrize(
    "frame",
    [
        PART,
        a_part(0, 2, b""),
        a_part(0, 2, b"x" * (PART_BYTES + 1)),
        a_part(2, 2),
        a_part(0, BODY_BYTES_MAX // PART_BYTES + 1),
        a_part(1, 2),
    ],
)
def test_part_of_a_question_that_cannot_be_meant_is_answered_with_gone(frame: bytes) -> None:
    parts = KeptParts()
    assert parts.asked(CALL, frame, 0) == GONE
    parts.check()


def test_part_that_comes_again_came_and_is_not_kept_twice() -> None:
    parts, frames = KeptParts(), question_frames(1, LONG)
    assert [parts.asked(CALL, frames[index], 0) for index in (0, 1, 1)] == [CAME, CAME, CAME]
    assert parts.asked(CALL, frames[2], 0) is None
    parts.check()


@pytest.mark.parametrize("frame", [FETCH, FETCH + b"x", fetch_frame(8, 0), fetch_frame(7, 3)])
def test_part_of_an_answer_that_is_not_there_is_gone(frame: bytes) -> None:
    parts = KeptParts()
    parts.answer_frame(CALL, LONG, 0)
    assert parts.fetched(CALL, frame, 0) == GONE
    assert parts.fetched(CALL, fetch_frame(7, 2), 0) == WHOLE + b"x"
