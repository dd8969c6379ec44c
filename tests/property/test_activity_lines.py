"""The lines of strangers: whatever they are and however they are cut, each has one meaning, or one answer and the end.

Knows: bytes, and JSON as the standard library writes it.  Does not know what a node does with a message.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from distkv.core.activity.conversation import ActivityTalk, CloseTalk, SayLines, Sending, TalkEffect
from distkv.errors import DecodeError
from distkv.wire.activity_lines import (
    LINE_BYTES_MAX,
    USER_FIELD,
    ActivityLine,
    LineReader,
    activity_text,
    read_line,
)

TEXTS = st.text(max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=20
)
COMMANDS = st.sampled_from(["REGISTER", "LOGIN", "LOGOUT", "ACTIVITY_MESSAGE", "ACTIVITY_BROADCAST", "", "login"])
NAMES = st.sampled_from(["anonymous", "aaron"])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "command": COMMANDS | VALUES,
        "username": NAMES | VALUES,
        "secret": st.just("s") | VALUES,
        "activity": st.dictionaries(TEXTS, VALUES, max_size=3) | VALUES,
        "resume": st.dictionaries(TEXTS, st.integers(-1, 5), max_size=3) | VALUES,
        "client": TEXTS | VALUES,
        "taken": st.booleans() | VALUES,
    },
)
LINES = FIELDS.map(lambda fields: json.dumps(fields).encode()) | st.binary(max_size=60)


def answered(talk: ActivityTalk) -> list[TalkEffect]:
    """What follows until nothing does."""
    found = list[TalkEffect]()
    while (some := talk.next()) is not None:
        talk.check()
        found += some
    return found


@given(LINES)
@example(b"[" * 60_000)
@example(b'{"a":' * 10_000)
@example(b'{"command":"LOGOUT","x":1e400}')
@example(b'"\\ud800"')
def test_line_has_a_meaning_or_is_refused_in_a_sentence(line: bytes) -> None:
    says = ""
    try:
        read_line(line)
    except DecodeError as error:
        says = str(error)
    assert "\n" not in says
    assert len(says) < 300


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_activity_is_given_on_with_its_meaning(activity: dict[str, object]) -> None:
    line = read_line(json.dumps({"command": "ACTIVITY_MESSAGE", "username": "u", "activity": activity}).encode())
    assert isinstance(line, ActivityLine)
    text = activity_text(line.activity, "u")
    assert b"\n" not in text
    assert text.decode().isprintable() or json.loads(text)
    assert json.loads(text) == {**activity, USER_FIELD: "u"}


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.randoms())
def test_lines_come_whole_however_they_are_cut(lines: list[bytes], rng: Any) -> None:
    data, reader, found = b"".join(line + b"\n" for line in lines), LineReader(), list[bytes]()
    while data:
        cut = rng.randint(1, len(data))
        reader.feed(data[:cut])
        data = data[cut:]
        while (line := reader.next_line()) is not None:
            found.append(line)
    assert found == lines
    assert reader.size == 0


@given(st.lists(LINES, min_size=1, max_size=5))
def test_conversation_gives_one_last_word_at_the_most(lines: list[bytes]) -> None:
    talk = ActivityTalk()
    for line in lines:
        talk.feed(line + b"\n")
    effects = answered(talk)
    closes = [effect for effect in effects if isinstance(effect, CloseTalk)]
    assert len(closes) <= 1
    assert not closes or effects[-1] is closes[0]
    assert not any(isinstance(effect, Sending) for effect in effects)  # nobody is logged in
    said = b"".join([effect.lines for effect in effects if isinstance(effect, SayLines)])
    assert said.count(b"\n") <= 1


@given(st.integers(1, 3))
def test_stream_without_an_end_of_line_is_refused_in_bounded_memory(more: int) -> None:
    talk = ActivityTalk()
    effects = list[TalkEffect]()
    for _ in range(64 * more):
        talk.feed(b"x" * 4096)
        effects += answered(talk)
        assert talk.half_bytes <= LINE_BYTES_MAX + 4096
    assert isinstance(effects[-1], CloseTalk) is (64 * more * 4096 > LINE_BYTES_MAX)
