"""Commands that meet something lost: what is there is printed, and the end says that not all is."""

from __future__ import annotations

import pytest

from distkv.cli.main import run
from distkv.errors import DamagedError
from distkv.wire.replies import addressed, encode_error, encode_reply, encode_start
from distkv.wire.watch import encode_lost
from tests.unit.client.scripted_server import Step, open_server, refusal, reply

LOST = DamagedError("x is lost here: ask another node")
ITEM = {"path": ["w"], "value": 1, "chain": {"node": "a", "tick": 2, "prev": None}, "tock": 9, "time": 1.5}
LOSER = {"id": "a:2", "path": ["w"], "value": 1, "node": "a", "tick": 2, "tock": 9, "time": 1.5}
DATE = "1970-01-01T00:00:01.500+00:00"
SHOWN = f"a:2 w: 1  {DATE} closed\n"
ROW = {"arrived": 1.5, "position": 3, "won": True}
CHANGE = {"path": ["w"], "value": 1, "node": "a", "tick": 2, "tock": 9, "time": 1.5, "token": b"\1"}


def all_that_is_there(seq: int) -> bytes:
    return encode_start(seq) + encode_reply(seq, ITEM) + encode_error(seq, LOST)


def a_row_that_is_there(seq: int) -> bytes:
    return encode_start(seq) + encode_reply(seq, {**ITEM, **CHANGE, **ROW}) + encode_error(seq, LOST)


def lost_and_a_change(seq: int) -> bytes:
    return encode_start(seq) + addressed(encode_lost(None), seq) + encode_reply(seq, CHANGE)


@pytest.mark.parametrize(
    ("arguments", "step", "printed"),
    [
        (["get", "x"], refusal(LOST), ""),
        (["get", "x", "--default", "5"], refusal(LOST), ""),
        (["set", "x", "1", "--new"], refusal(LOST), ""),
        (["get", "-r", ":"], all_that_is_there, "w: 1\n"),
        (["dump"], all_that_is_there, '{"path": "w", "value": 1}\n'),
        (["list"], reply({"names": [["w", True, 0]], "lost": str(LOST)}), "w\n"),
        (["conflicts"], reply({"items": [LOSER], "lost": str(LOST)}), SHOWN),
        (["conflicts", "-o", "json"], reply({"items": [], "lost": str(LOST)}), "[]\n"),
        (["history", "w"], a_row_that_is_there, f"{DATE} {DATE} a:2 1\n"),
        (["list", "-o", "json"], reply({"names": [], "lost": str(LOST)}), "[]\n"),
    ],
)
def test_what_is_there_is_printed_and_the_exit_code_says_that_not_all_is(
    capsys: pytest.CaptureFixture[str], arguments: list[str], step: Step, printed: str
) -> None:
    with open_server(step) as server:
        assert run([*server.arguments, *arguments]) == 7
    assert capsys.readouterr() == (printed, f"distkv: {LOST}\n")


def test_watch_prints_a_line_for_what_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    with open_server(lost_and_a_change) as server:
        assert run([*server.arguments, "watch", ":", "--state", "--count", "1"]) == 0
    assert capsys.readouterr().out == "a value whose path cannot be read is lost here\nw: 1\n"
