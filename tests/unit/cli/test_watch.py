"""What `distkv client watch` prints, from a server that says what the test tells it to.

Knows: what a user types and sees.  Does not know a real node: tests/process does.
"""

from __future__ import annotations

import pytest

from distkv.cli.main import run
from distkv.wire.replies import encode_reply
from tests.unit.client.scripted_server import Step, open_server

Capture = pytest.CaptureFixture[str]

CHANGE = {"path": ["w"], "value": 1, "node": "a", "tick": 9, "tock": 1, "time": 1.5, "token": b"\2"}
MISSED = {"missed": {"b": 1, "a": 49}, "token": b"\1"}


def telling(*frames: dict[str, object]) -> Step:
    """The start of a watch, and these."""
    return lambda seq: b"".join(encode_reply(seq, fields) for fields in ({"state": "start"}, *frames))


@pytest.mark.parametrize("change", [CHANGE, {**CHANGE, "deleted": True}])
def test_what_cannot_be_seen_in_a_path_does_not_reach_the_terminal(capsys: Capture, change: dict[str, object]) -> None:
    with open_server(telling({**change, "path": ["w\x1b[2J"]})) as server:
        assert run([*server.arguments, "watch", "w", "--count", "1"]) == 0
    assert capsys.readouterr().out.startswith("w\\x1b[2J")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "missed 49 of a, 1 of b"),
        (["-m"], "missed 49 of a, 1 of b 01"),
        (["-o", "json"], '{"missed": {"a": 49, "b": 1}}'),
        (["-o", "json", "-m"], '{"missed": {"a": 49, "b": 1}, "token": "01"}'),
    ],
    ids=["text", "text and token", "json", "json and token"],
)
def test_what_was_missed_is_a_line_and_no_change(capsys: Capture, options: list[str], line: str) -> None:
    with open_server(telling(MISSED, CHANGE)) as server:
        assert run([*server.arguments, "watch", "w", "--count", "1", *options]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == line
    assert "w" in second
