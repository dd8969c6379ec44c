"""Fences on the command line, against a server that answers as the test says.

Knows: what a user types and sees.  Does not know a real node: tests/process does.
"""

from __future__ import annotations

import json

import pytest

from distkv.cli.main import run
from distkv.errors import FencedError
from distkv.model.fence import Fence
from distkv.model.path import Path
from distkv.wire.replies import encode_end, encode_reply, encode_start
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import Step, open_server, refusal, reply

Capture = pytest.CaptureFixture[str]

CHAIN = {"node": "a", "tick": 2, "prev": None}
DONE = {"changed": True, "chain": CHAIN}
FENCE = Fence(0, 12, 3, "job")
SHOWN = {"fence": ["job", 12, 3], "base": 2}
ENTRY = {"value": 1, "chain": CHAIN, "tock": 9, "time": 1.5}
CHANGE = {"value": 1, "path": ["w"], "node": "a", "tick": 2, "tock": 9, "time": 1.5}
CAME = "1970-01-01T00:00:02.500+00:00"
PAST = {**ENTRY, "path": ["w"], "arrived": 2.5, "position": 3, "won": True}
TIME = "1970-01-01T00:00:01.500+00:00"


def items(*found: dict[str, object]) -> Step:
    """A long result."""
    return lambda seq: encode_start(seq) + b"".join(encode_reply(seq, item) for item in found) + encode_end(seq)


# -- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "fence", "refence"),
    [(["--fence", "job:12.3"], FENCE, False), (["--refence"], None, True), ([], None, False)],
)
def test_writes_carry_what_the_options_say(arguments: list[str], fence: Fence | None, refence: bool) -> None:
    with open_server(reply(DONE)) as server:
        assert run([*server.arguments, "set", "w", "1", *arguments]) == 0
    with open_server(reply(DONE)) as other:
        assert run([*other.arguments, "delete", "w", *arguments]) == 0
    for asked, value in ((server, pack_value(1)), (other, None)):
        assert asked.requests == [SetValue(1, Path(["w"]), value, nchain=1, fence=fence, refence=refence)]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["set", "w", "1", "--fence", "job"], "--fence is 'job': write NAME:EPOCH.COUNTER"),
        (["set", "w", "1", "--fence", "job:1.x"], "--fence is 'job:1.x': write NAME:EPOCH.COUNTER"),
        (["delete", "w", "--fence", ""], "--fence is '': write NAME:EPOCH.COUNTER"),
        (["set", "w", "1", "--fence", "job:1.2", "--refence"], "--fence and --refence exclude each other"),
        (["delete", "w", "--fence", "job:1.2", "--refence"], "--fence and --refence exclude each other"),
        (["delete", "-r", "w", "--fence", "job:1.2"], "--fence and --refence are for one value"),
        (["delete", "-r", "w", "--refence"], "--fence and --refence are for one value"),
    ],
)
def test_options_that_cannot_be_meant_are_wrong_usage(capsys: Capture, arguments: list[str], problem: str) -> None:
    assert run(["client", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"distkv: {problem}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["set", "w", "1"], ["delete", "w"]])
def test_write_that_is_fenced_off_ends_with_4(capsys: Capture, arguments: list[str]) -> None:
    with open_server(refusal(FencedError("a later holder wrote: acquire the token, or lift the fence"))) as server:
        assert run([*server.arguments, *arguments, "--fence", "job:12.2"]) == 4
    words = "a later holder wrote: acquire the token, or lift the fence (--refence)"
    assert capsys.readouterr().err == f"distkv: {words}\n"


# -- what is shown ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "step", "line"),
    [
        (
            ["get", "-r", "w", "-m"],
            items({**ENTRY, "path": ["w"], **SHOWN}),
            f'w: 1  chain=["a:2"] tock=9 time={TIME} fence=job:12.3 base=2',
        ),
        (["history", "w"], items({**PAST, **SHOWN}), f"{CAME} {TIME} a:2 1  fence=job:12.3 base=2"),
        (["history", "w"], items({**PAST, "base": 2}), f"{CAME} {TIME} a:2 1  base=2"),
        (
            ["history", "w"],
            items({**PAST, **SHOWN, "won": False}),
            f"{CAME} {TIME} a:2 1  fence=job:12.3 base=2  (lost)",
        ),
        (["conflicts", "w"], reply({"items": [{**CHANGE, **SHOWN}]}), f"a:2 w: 1  {TIME} closed fence=job:12.3 base=2"),
        (
            ["watch", "w", "-m", "--count", "1"],
            items({**CHANGE, "token": b"\1", **SHOWN}),
            f"w: 1  a:2 {TIME} fence=job:12.3 base=2 01",
        ),
        (["watch", "w", "--count", "1"], items({**CHANGE, "token": b"\1", **SHOWN}), "w: 1"),
    ],
    ids=["tree", "history", "history, lifted", "history, lost", "conflicts", "watch with meta", "watch"],
)
def test_fence_is_shown_on_the_line(capsys: Capture, arguments: list[str], step: Step, line: str) -> None:
    with open_server(step) as server:
        assert run([*server.arguments, *arguments]) == 0
    assert capsys.readouterr().out == f"{line}\n"


@pytest.mark.parametrize(
    ("arguments", "step"),
    [
        (["get", "w", "-m"], reply({**ENTRY, **SHOWN})),
        (["get", "-r", "w", "-m"], items({**ENTRY, "path": ["w"], **SHOWN})),
        (["history", "w"], items({**PAST, **SHOWN})),
        (["watch", "w", "-m", "--count", "1"], items({**CHANGE, "token": b"\1", **SHOWN})),
        (["conflicts", "w"], reply({"items": [{**CHANGE, **SHOWN}]})),
    ],
    ids=["get", "tree", "history", "watch", "conflicts"],
)
def test_fence_is_text_and_base_a_number_in_json(capsys: Capture, arguments: list[str], step: Step) -> None:
    with open_server(step) as server:
        assert run([*server.arguments, *arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    shown = found[0] if isinstance(found, list) else found
    assert (shown["fence"], shown["base"]) == ("job:12.3", 2)


@pytest.mark.parametrize(
    ("fields", "names"),
    [({}, set()), ({"base": 1}, {"base"}), ({"fence": ["job", 12, 3]}, {"fence"})],
    ids=["none", "lifted", "never lifted"],
)
def test_what_says_nothing_is_not_shown(capsys: Capture, fields: dict[str, object], names: set[str]) -> None:
    with open_server(reply({**ENTRY, **fields})) as server:
        assert run([*server.arguments, "get", "w", "-m", "-o", "json"]) == 0
    assert {"fence", "base"} & set(json.loads(capsys.readouterr().out)) == names


# -- trees --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "out"), [([], "3\n"), (["-o", "json"], '{"count": 3, "fenced": 2}\n'), (["-o", "raw"], "3")]
)
def test_deleting_a_tree_of_which_something_stays_says_so_and_ends_with_4(
    capsys: Capture, options: list[str], out: str
) -> None:
    with open_server(reply({"count": 3, "fenced": 2})) as server:
        assert run([*server.arguments, "delete", "-r", "w", *options]) == 4
    told = capsys.readouterr()
    assert told.out == out
    assert told.err.startswith("distkv: 2 values at and below w stayed, because tokens hold the paths")
    assert told.err.count("\n") == 1


def test_deleting_a_tree_of_which_everything_stays_prints_no_result(capsys: Capture) -> None:
    with open_server(reply({"count": 0, "fenced": 1})) as server:
        assert run([*server.arguments, "delete", "-r", "w"]) == 4
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("distkv: nothing was deleted: one value at and below w stayed, because tokens hold")
