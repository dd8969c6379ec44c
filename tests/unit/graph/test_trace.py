"""Moments as values, as dictionaries and as lines of a file."""

from __future__ import annotations

import json

import pytest

from distkv.errors import DecodeError
from distkv.graph.trace import EventShown, Moment, Said, read_lines, write_line

PING = Said("ping", "a@7", "a", chain="a:3 b:1")
MOMENT = Moment(
    1200,
    "b",
    "ping",
    heard=PING,
    sent=(Said("ask maps", "b#1@9", "b", "a", "b#1@9"),),
    events=(EventShown("a:3", "x.y", "'text'", "won"), EventShown("a:4", "x.z")),
    ticks="a:3-4",
    notes=("split_healed node=a",),
    state="ready",
    tock=9,
)


def test_moment_comes_back_from_its_dictionary() -> None:
    assert Moment.from_dict(MOMENT.to_dict()) == MOMENT


def test_moment_comes_back_from_its_line() -> None:
    assert list(read_lines(["", write_line(MOMENT)], "file")) == [MOMENT]


def test_fields_that_say_nothing_are_not_written() -> None:
    assert Moment(5, "a", "wake").to_dict() == {"at_ms": 5, "node": "a", "kind": "wake"}


def test_unknown_fields_are_ignored() -> None:
    assert Moment.from_dict({**MOMENT.to_dict(), "colour": "red"}) == MOMENT


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Expecting"),
        ("[]", "the line is a map, not list"),
        ('{"node": "a", "kind": "wake"}', "at_ms is an integer, not NoneType"),
        ('{"at_ms": true, "node": "a", "kind": "wake"}', "at_ms is an integer, not bool"),
        ('{"at_ms": 1, "kind": "wake"}', "node is missing"),
        ('{"at_ms": 1, "node": "a", "kind": "wake", "state": 3}', "state is text, not int"),
        ('{"at_ms": 1, "node": "a", "kind": "wake", "sent": "x"}', "sent is a list, not str"),
        ('{"at_ms": 1, "node": "a", "kind": "wake", "sent": [{"kind": "ping"}]}', "key is missing"),
        ('{"at_ms": 1, "node": "a", "kind": "wake", "notes": [1]}', "notes is text, not int"),
        (" " * (1 << 20) + "{}", "at most 1048576 characters"),
    ],
)
def test_bad_line_is_named_with_its_file_and_place(line: str, why: str) -> None:
    lines = [write_line(MOMENT), line]
    with pytest.raises(DecodeError, match=f"^t.json, line 2 is no moment of a trace: .*{why}"):
        list(read_lines(lines, "t.json"))


def test_line_is_plain_json() -> None:
    assert json.loads(write_line(MOMENT))["heard"] == {"kind": "ping", "key": "a@7", "sender": "a", "chain": "a:3 b:1"}
