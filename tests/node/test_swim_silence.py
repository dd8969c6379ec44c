"""What a node of the transport swim logs while nobody of its group answers, by a clock that jumps."""

from __future__ import annotations

import logging

import pytest
import trio

from distkv.transport.swim import SILENT_S, warn_while

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("autojump_clock")]

WHY = "nobody answers at 127.0.0.1:9"
FIRST_S, AGAIN_S = SILENT_S


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_silence_is_logged_soon_and_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    with trio.move_on_after(FIRST_S + 2.5 * AGAIN_S):
        await warn_while(lambda: WHY)
    assert logged(caplog) == [f"not_joined: {WHY}"] * 3


async def test_who_is_answered_soon_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(2 * FIRST_S):
        await warn_while(lambda: "")
    assert logged(caplog) == []


async def test_silence_that_ends_is_logged_no_more(caplog: pytest.LogCaptureFixture) -> None:
    end_s = trio.current_time() + AGAIN_S
    with trio.fail_after(3 * AGAIN_S):
        await warn_while(lambda: WHY if trio.current_time() < end_s else "")
    assert logged(caplog) == [f"not_joined: {WHY}"]
