"""The lines of nodes to clients of the activity network: written, and read again.

Knows: lines as values and as bytes.  Does not know when one is sent.
"""

from __future__ import annotations

import json

import pytest

from distkv.errors import DecodeError
from distkv.wire.activity_answers import (
    AnswerLine,
    BroadcastLine,
    GapLine,
    LoggedInLine,
    RedirectLine,
    RefusedLine,
    RegisteredLine,
    TakenLine,
    broadcast_line,
    encode_answer,
    gap_line,
    read_answer,
)


@pytest.mark.parametrize(
    "line",
    [
        RegisteredLine("register success for aaron"),
        LoggedInLine("logged in as user aaron"),
        LoggedInLine("logged in as user aaron", {}, "c"),
        TakenLine("a.1", 7),
        RefusedLine("LOGIN_FAILED", "why", "wrong_secret"),
        RedirectLine("host", 1234),
        RedirectLine("host", 1234, {"a.1": 7}),
        *(RefusedLine(command, "why") for command in (
            "REGISTER_FAILED", "LOGIN_FAILED", "AUTHENTICATION_FAIL", "INVALID_MESSAGE",
        )),
    ],
)  # fmt: skip
def test_line_is_read_as_it_was_written(line: AnswerLine) -> None:
    assert read_answer(encode_answer(line)) == line


def test_line_has_no_more_fields_than_the_source_when_nobody_resumes() -> None:
    assert json.loads(encode_answer(RedirectLine("host", 1))) == {"command": "REDIRECT", "hostname": "host", "port": 1}


def test_broadcast_has_the_activity_as_it_is() -> None:
    line = broadcast_line("a.1f", 7, '{"x":"ü"}'.encode())
    assert read_answer(line) == BroadcastLine({"x": "ü"}, "a.1f", 7)
    assert line.endswith(b"}\n")


def test_gap_is_read_as_it_was_written() -> None:
    assert read_answer(gap_line("a.1f", 3, 9)) == GapLine("a.1f", 3, 9)


def test_broadcast_of_a_server_that_numbers_nothing_is_read() -> None:
    assert read_answer(b'{"command":"ACTIVITY_BROADCAST","activity":{}}') == BroadcastLine({})


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[]", b'{"command":"LOGIN"}', b'{"command":"REDIRECT","hostname":"h","port":0}',
        b'{"command":"REDIRECT","hostname":"h","port":65536}', b'{"command":"REDIRECT","port":1}',
        b'{"command":"ACTIVITY_BROADCAST"}', b'{"command":"ACTIVITY_BROADCAST","activity":{},"origin":"a"}',
        b'{"command":"LOGIN_SUCCESS","at":[]}', b'{"command":"LOGIN_SUCCESS","info":1}',
    ],
)  # fmt: skip
def test_line_that_no_node_sends_is_refused(line: bytes) -> None:
    with pytest.raises(DecodeError):
        read_answer(line)
