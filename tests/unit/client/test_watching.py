"""A watch over several connections: which token it goes on with, and when it has to begin anew.

Knows: frames as a node sends them.  Does not know connections.
"""

from __future__ import annotations

import pytest

from distkv.client.outages import Begun
from distkv.client.watch import Change, Contested, Missed, Resync, UpToDate, WatchEvent, Watching
from distkv.errors import BadPathError, BusyError, DecodeError, NotReadyError, UnreachableError
from distkv.model.path import Path
from distkv.wire.fields import Fields
from distkv.wire.frames import decode_request
from distkv.wire.subtrees import Watch

START: Fields = {"state": "start"}
RESYNC: Fields = {"state": "resync", "token": b"too early"}


def watching(*, fetch: bool = False, since: bytes | None = None) -> Watching:
    return Watching("w", fetch=fetch, since=since, min_depth=0, max_depth=None)


def told(watch: Watching, *frames: Fields) -> list[WatchEvent | Begun]:
    """What a connection brings that sends these frames."""
    question = watch.question()
    return [question.read(frame) for frame in frames]


def asked(watch: Watching) -> Watch:
    """What it asks on its next connection."""
    request = decode_request(watch.question().encode(1))
    assert isinstance(request, Watch)
    return request


def item(value: object, token: bytes | None = None) -> Fields:
    fields = {"path": ["w", "x"], "value": value, "node": "a", "tick": 7, "tock": 8, "time": 1.5}
    return fields if token is None else {**fields, "token": token}


def up_to_date(token: bytes) -> Fields:
    return {"state": "uptodate", "token": token}


def test_first_question_asks_what_the_user_wants() -> None:
    assert asked(watching(fetch=True)) == Watch(1, Path(["w"]), fetch=True, missed=True)
    assert asked(watching(since=b"t")) == Watch(1, Path(["w"]), since=b"t", missed=True)


def test_attempt_that_never_began_is_repeated_as_it_was() -> None:
    watch = watching(fetch=True)
    told(watch)
    assert asked(watch) == Watch(1, Path(["w"]), fetch=True, missed=True)


@pytest.mark.parametrize(
    ("frames", "since"),
    [
        ([{"state": "start", "token": b"s"}], b"s"),
        ([{"state": "start", "token": b"s"}, item(1, b"1"), item(2, b"2")], b"2"),
        ([START, RESYNC, item(1), up_to_date(b"u")], b"u"),
        ([START, RESYNC, item(1), up_to_date(b"u"), item(2, b"2")], b"2"),
        ([START, RESYNC, item(1), item(2, b"2")], b""),
        ([{"state": "start", "token": b"s"}, item(1, b"1"), {"missed": {"a": 2}, "token": b"m"}], b"m"),
    ],
    ids=["start", "changes", "whole state", "change behind it", "half of the state", "missed"],
)
def test_watch_goes_on_with_the_last_token_that_covers_all_it_was_told(frames: list[Fields], since: bytes) -> None:
    watch = watching()
    told(watch, *frames)
    assert asked(watch).since == since


def test_fetch_that_broke_in_the_middle_begins_anew_with_a_resync() -> None:
    watch = watching(fetch=True)
    told(watch, START, item(1), item(2, b"a change meanwhile"))
    assert asked(watch).since == b""


def test_fetch_that_was_complete_goes_on_behind_it() -> None:
    watch = watching(fetch=True)
    told(watch, START, item(1), up_to_date(b"u"))
    assert asked(watch).since == b"u"


def test_frames_become_events() -> None:
    conflict = {"conflict": {"path": ["w"], "open": [{"node": "b", "tick": 3, "tock": 1, "time": 1.0}]}}
    deleted = {name: value for name, value in item(0, b"d").items() if name != "value"}
    missed = {"missed": {"a": 2, "b": 1}, "token": b"m"}
    found = told(watching(), START, item([1], b"t"), deleted, conflict, missed, RESYNC, up_to_date(b"u"))
    path = Path(["w", "x"])
    assert found == [
        Begun(),
        Change(path, [1], False, ("a", 7), 8, 1.5, b"t"),  # type: ignore[arg-type]
        Change(path, None, True, ("a", 7), 8, 1.5, b"d"),  # type: ignore[arg-type]
        Contested(Path(["w"]), (("b", 3),)),  # type: ignore[arg-type]
        Missed({"a": 2, "b": 1}, b"m"),  # type: ignore[dict-item]
        Resync(),
        UpToDate(b"u"),
    ]


@pytest.mark.parametrize(
    "frame",
    [
        {},
        {"missed": 1},
        {"missed": {"a": "2"}},
        {"missed": {"/": 2}},
        {"state": "other"},
        {"state": "start", "token": "text"},
        {"conflict": 1},
        {**item(1), "path": "w"},
    ],
    ids=["empty", "missed", "missed count", "missed node", "state", "token", "conflict", "path"],
)
def test_nonsense_is_a_decode_error(frame: Fields) -> None:
    with pytest.raises(DecodeError):
        told(watching(), START, frame)


def test_what_may_be_over_soon_is_tried_again_but_a_refusal_of_the_first_attempt_is_not() -> None:
    watch = watching()
    passing = [NotReadyError("starts"), BusyError("full")]
    assert not any(map(watch.is_bearable, passing))
    told(watch, START)
    assert all(map(watch.is_bearable, [*passing, UnreachableError("gone")]))
    assert not watch.is_bearable(BadPathError("no"))
