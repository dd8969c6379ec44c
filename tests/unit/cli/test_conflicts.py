"""`distkv client conflicts`, against a server that answers as the test says.

Knows: what a user types and sees.  Does not know a real node: tests/process does.
"""

from __future__ import annotations

import json

import pytest

from distkv.cli.main import run
from distkv.errors import ChainMismatchError, NotFoundError, RequestError
from distkv.model.event import NodeName, Tick
from distkv.model.path import Path
from distkv.wire.decisions import Dismiss, GetConflicts, Restore
from tests.unit.client.scripted_server import ScriptedServer, open_server, refusal, reply

Capture = pytest.CaptureFixture[str]

A = {
    "id": "a:12", "path": ["w", 7], "value": {"x": 1}, "node": "a", "tick": 12, "tock": 90, "time": 1.5,
    "winner": {"node": "b", "tick": (7 << 32) + 5}, "winner_time": 3.5, "winner_value": "y",
}  # fmt: skip
GONE = {
    "id": "c:3.1", "path": ["w", "y"], "node": "c", "tick": (3 << 32) + 1, "tock": 91, "time": 2.5,
    "winner": {"node": "b", "tick": 6}, "winner_time": 4.5,
}  # fmt: skip
CLOSED = {name: value for name, value in A.items() if not name.startswith("winner")}
DONE = {"changed": True, "tick": 8, "tock": 9, "chain": {"node": "b", "tick": 8, "prev": None}}

A12 = (NodeName("a"), Tick(12))


def ask(server: ScriptedServer, *arguments: str) -> int:
    return run([*server.arguments, "conflicts", *arguments])


# -- lists --------------------------------------------------------------------------------------------------------


def test_each_loser_is_a_line_that_begins_with_its_id(capsys: Capture) -> None:
    with open_server(reply({"items": [A, GONE]})) as server:
        assert ask(server) == 0
    assert capsys.readouterr().out.splitlines() == [
        'a:12 w.:7: {"x": 1}  1970-01-01T00:00:01.500+00:00 lost to b:7.5 y  1970-01-01T00:00:03.500+00:00',
        "c:3.1 w.y deleted  1970-01-01T00:00:02.500+00:00 lost to b:6 deleted  1970-01-01T00:00:04.500+00:00",
    ]


SHOWN_A = {
    "change": "a:12", "path": "w.:7", "value": {"x": 1}, "tock": 90, "time": 1.5,
    "winner": {"change": "b:7.5", "value": "y", "time": 3.5},
}  # fmt: skip
SHOWN_GONE = {
    "change": "c:3.1", "path": "w.y", "deleted": True, "tock": 91, "time": 2.5,
    "winner": {"change": "b:6", "deleted": True, "time": 4.5},
}  # fmt: skip


def test_what_cannot_be_seen_in_a_path_does_not_reach_the_terminal(capsys: Capture) -> None:
    with open_server(reply({"items": [{**A, "path": ["w\x1b[2J"]}]})) as server:
        assert ask(server) == 0
    assert capsys.readouterr().out.startswith('a:12 w\\x1b[2J: {"x": 1}')


def test_winners_value_is_that_of_the_first_loser_of_a_path(capsys: Capture) -> None:
    second = {name: value for name, value in A.items() if name != "winner_value"} | {"id": "a:11", "tick": 11}
    with open_server(reply({"items": [A, second, GONE]})) as server:
        assert ask(server, "-o", "json") == 0
    winners = [shown["winner"] for shown in json.loads(capsys.readouterr().out)]
    assert winners == [SHOWN_A["winner"], SHOWN_A["winner"], SHOWN_GONE["winner"]]


def test_json_names_changes_as_text(capsys: Capture) -> None:
    with open_server(reply({"items": [A, GONE]})) as server:
        assert ask(server, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == [SHOWN_A, SHOWN_GONE]


@pytest.mark.parametrize(("form", "printed"), [("text", ""), ("json", "[]\n")])
def test_no_conflict_is_no_failure(capsys: Capture, form: str, printed: str) -> None:
    with open_server(reply({"items": []})) as server:
        assert ask(server, "-o", form) == 0
    assert capsys.readouterr().out == printed


def test_list_goes_on_behind_the_last_path_of_a_page(capsys: Capture) -> None:
    with open_server(reply({"items": [A], "more": ["w", 7]}), reply({"items": [GONE]})) as server:
        assert ask(server, "w", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == [SHOWN_A, SHOWN_GONE]
    assert server.requests == [GetConflicts(1, Path(["w"])), GetConflicts(2, Path(["w"]), Path(["w", 7]))]


def test_limit_is_the_number_of_losers_whatever_the_pages_hold(capsys: Capture) -> None:
    with open_server(reply({"items": [A, GONE], "more": ["w", 7]})) as server:
        assert ask(server, "--limit", "1", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == [SHOWN_A]
    assert server.requests == [GetConflicts(1, limit=1)]


def test_closed_ones_are_shown_with_what_closed_them(capsys: Capture) -> None:
    items = [{**CLOSED, "closed_by": {"node": "b", "tick": 9}}, CLOSED]
    with open_server(reply({"items": items})) as server:
        assert ask(server, "w.:7", "--closed") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("+00:00 ")[2] for line in lines] == ["closed by b:9", "closed"]
    assert server.requests == [GetConflicts(1, Path(["w", 7]), closed=True)]


# -- decisions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        (["--restore", "a:12"], Restore(1, A12, nchain=1)),
        (["--dismiss", "a:12"], Dismiss(1, A12, nchain=1)),
        (["w", "--restore", "a:12"], Restore(1, A12, path=Path(["w"]), nchain=1)),
        (["--restore", "a:12", "--if-chain", "b:3"], Restore(1, A12, (NodeName("b"), Tick(3)), nchain=1)),
        (["--dismiss", "a:12", "--if-chain", "b:3"], Dismiss(1, A12, (NodeName("b"), Tick(3)), nchain=1)),
        (["--closed", "--restore", "a:12"], Restore(1, A12, nchain=1, closed=True)),
    ],
)
def test_decision_is_asked_for_and_prints_its_change(
    capsys: Capture, arguments: list[str], request_: object
) -> None:
    with open_server(reply(DONE)) as server:
        assert ask(server, *arguments) == 0
    assert capsys.readouterr().out == "b:8\n"
    assert server.requests == [request_]


@pytest.mark.parametrize(
    ("error", "code"), [(NotFoundError("x"), 3), (ChainMismatchError("x"), 4), (RequestError("x"), 1)]
)
def test_refused_decision_is_one_line_and_a_code(capsys: Capture, error: RequestError, code: int) -> None:
    with open_server(refusal(error)) as server:
        assert ask(server, "--restore", "a:12") == code
    assert capsys.readouterr().err == "distkv: x\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--restore", "a:1", "--dismiss", "a:1"], "--restore and --dismiss exclude each other"),
        (["--if-chain", "a:1"], "--if-chain is for --restore and --dismiss"),
        (["--restore", "a:1", "--restore", "a:2"], "--restore stands here 2 times: give it once"),
        (["--dismiss", "a:1", "--dismiss", "a:2"], "--dismiss stands here 2 times: give it once"),
        (["--restore", "a"], "'a' names no change"),
        (["--dismiss", "a:1", "--if-chain", "x"], "'x' names no change"),
        (["--closed"], "--closed is about one path: name it"),
        (["--closed", "--dismiss", "a:1"], "--closed is for --restore"),
        (["--restore", "a:1", "--limit", "1"], "--limit is for a list"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys: Capture, arguments: list[str], problem: str) -> None:
    assert run(["client", "conflicts", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"distkv: {problem}")
