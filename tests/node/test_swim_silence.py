"""What a node of the transport swim logs while nobody of its group answers, by a clock that jumps."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from distkv.transport.swim import SILENT_S, warn_while

pytestmark = pytest.mark.trio

WHY = "nobody answers at 127.0.0.1:9"
FIRST_S, AGAIN_S = SILENT_S


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def warn(clock: MockClock, time_s: float) -> None:
    """For so long there is something to say."""
    end_s = clock.current_time() + time_s
    with trio.move_on_after(FIRST_S + 2.5 * AGAIN_S):
        await warn_while(lambda: WHY if clock.current_time() < end_s else "")


async def test_silence_is_logged_soon_and_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await warn(autojump_clock, 1_000)
    assert logged(caplog) == [f"not_joined: {WHY}"] * 3


async def test_who_is_answered_soon_logs_nothing(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    await warn(autojump_clock, FIRST_S / 2)
    assert logged(caplog) == []


async def test_silence_that_ends_is_logged_no_more(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    await warn(autojump_clock, AGAIN_S)
    assert logged(caplog) == [f"not_joined: {WHY}"]
