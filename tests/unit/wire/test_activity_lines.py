"""The lines of clients of the activity network: what each means, and what is wrong with one.

Knows: lines as bytes.  Does not know who sends one.
"""

from __future__ import annotations

import json

import pytest

from distkv.errors import DecodeError
from distkv.wire.activity_lines import (
    ACTIVITY_BYTES_MAX,
    LINE_BYTES_MAX,
    ActivityLine,
    LineReader,
    LoginLine,
    LogoutLine,
    RegisterLine,
    activity_text,
    read_line,
)


def line_of(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def refusal(line: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        read_line(line)
    return str(caught.value)


def activity_of(text: bytes) -> bytes:
    line = read_line(b'{"command":"ACTIVITY_MESSAGE","username":"u","activity":{"x":%b}}' % text)
    assert isinstance(line, ActivityLine)
    return activity_text(line.activity, "u")


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (line_of(command="REGISTER", username="aaron", secret="s"), RegisterLine("aaron", b"s")),
        (line_of(command="LOGIN", username="aaron", secret="ü"), LoginLine("aaron", "ü".encode())),
        (line_of(command="LOGIN", username="anonymous"), LoginLine("anonymous")),
        (line_of(command="LOGIN", username="anonymous", secret="any"), LoginLine("anonymous")),
        (line_of(command="LOGIN", username="anonymous", secret=""), LoginLine("anonymous")),
        (line_of(command="LOGIN", username="anonymous", resume={}), LoginLine("anonymous", None, {})),
        (
            line_of(command="LOGIN", username="anonymous", resume={"a.1": 7}, client="c"),
            LoginLine("anonymous", None, {"a.1": 7}, "c"),
        ),
        (line_of(command="LOGIN", username="anonymous", taken=True), LoginLine("anonymous", taken=True)),
        (line_of(command="ACTIVITY_MESSAGE", username="u", activity={}), ActivityLine("u", None, {})),
        (line_of(command="LOGOUT"), LogoutLine()),
        (line_of(command="LOGOUT", other=1), LogoutLine()),
        (b'{"command":"LOGOUT"}\r', LogoutLine()),
    ],
)
def test_line_has_its_meaning(line: bytes, meaning: object) -> None:
    assert read_line(line) == meaning


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "JSON parse error while parsing message"),
        (b"\xff", "JSON parse error"),
        (b"{", "JSON parse error"),
        (b'{"command":"LOGOUT"} x', "JSON parse error"),
        (b'\xef\xbb\xbf{"command":"LOGOUT"}', "JSON parse error"),
        (b'{"command":"LOGOUT","x":NaN}', "JSON parse error"),
        (b'{"command":"LOGOUT","x":-Infinity}', "JSON parse error"),
        (b"[]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b'"LOGOUT"', "is not a JSON object"),
        (b"{}", "did not contain a command"),
        (line_of(command=None), "the field command must be text"),
        (line_of(command="logout"), 'the command "logout" is unknown'),
        (line_of(command="LOGIN"), "the field username"),
        (line_of(command="LOGIN", username=1), "the field username"),
        (line_of(command="LOGIN", username=""), "the field username"),
        (line_of(command="LOGIN", username="x" * 65), "the field username"),
        (line_of(command="LOGIN", username="a\nb"), "the field username"),
        (line_of(command="LOGIN", username="\ud800"), "the field username"),
        (line_of(command="LOGIN", username="u"), "the field secret"),
        (line_of(command="LOGIN", username="u", secret=""), "the field secret"),
        (line_of(command="LOGIN", username="u", secret=1), "the field secret"),
        (line_of(command="LOGIN", username="u", secret="é" * 129), "the field secret"),
        (line_of(command="LOGIN", username="u", secret="\ud800"), "the field secret"),
        (line_of(command="LOGIN", username="anonymous", secret=[]), "the field secret"),
        (line_of(command="LOGIN", username="anonymous", resume=None), "the field resume"),
        (line_of(command="LOGIN", username="anonymous", resume=[]), "the field resume"),
        (line_of(command="LOGIN", username="anonymous", resume={"a.1": "7"}), "the field resume"),
        (line_of(command="LOGIN", username="anonymous", resume={"a.1": True}), "the field resume"),
        (line_of(command="LOGIN", username="anonymous", resume={"a.1": -1}), "the field resume"),
        (line_of(command="LOGIN", username="anonymous", resume={"a.1": 2**63}), "the field resume"),
        (line_of(command="LOGIN", username="anonymous", resume={"a.1": 1.0}), "the field resume"),
        (line_of(command="LOGIN", username="anonymous", resume={"": 1}), "the field resume"),
        (line_of(command="LOGIN", username="anonymous", resume={f"a.{i}": 1 for i in range(1001)}), "at most 1000"),
        (line_of(command="LOGIN", username="anonymous", client=1), "the field client"),
        (line_of(command="LOGIN", username="anonymous", taken=1), "the field taken"),
        (line_of(command="REGISTER", username="u"), "the field secret"),
        (line_of(command="ACTIVITY_MESSAGE", username="u"), "the field activity must be an object"),
        (line_of(command="ACTIVITY_MESSAGE", username="u", activity=[]), "the field activity must be an object"),
        (line_of(command="ACTIVITY_MESSAGE", username="u", secret=None, activity={}), "the field secret"),
        (b'{"command":"LOGOUT","command":"LOGIN"}', 'the key "command" stands twice'),
        (b'{"command":"ACTIVITY_MESSAGE","username":"u","activity":{"a":{"b":1,"b":1}}}', 'the key "b" stands twice'),
        (b'{"command":"LOGOUT","x":1e999}', "a number has more digits"),
        (b'{"command":"LOGOUT","x":-1e999}', "a number has more digits"),
        (b'{"command":"LOGOUT","x":1e-999}', "a number has more digits"),
        (b'{"command":"LOGOUT","x":0.1234567890123456789}', "a number has more digits"),
        (b'{"command":"LOGOUT","x":%b}' % (b"1" * 5000), "a number has more digits"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(line: bytes, says: str) -> None:
    assert says in refusal(line)


def test_secret_that_is_wrong_is_not_repeated() -> None:
    assert "hidden" not in refusal(line_of(command="LOGIN", username="u", secret=["hidden"]))


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")])
def test_sixty_four_levels_are_taken_and_one_more_is_not(brackets: tuple[bytes, bytes]) -> None:
    def deep(levels: int) -> bytes:
        return b'{"command":"LOGOUT","x":%b1%b}' % (brackets[0] * (levels - 1), brackets[1] * (levels - 1))

    assert read_line(deep(64)) == LogoutLine()
    assert refusal(deep(65)) == "a message has at most 64 levels"


def test_nesting_beyond_what_the_parser_takes_is_refused() -> None:
    assert refusal(b'{"command":"LOGOUT","x":' + b"[" * 60_000) == "a message has at most 64 levels"


@pytest.mark.parametrize(
    "text",
    [
        b"1", b"-7", b"12345678901234567890123", b"0.1", b"1.5e+300", b"-0.0", b"true", b"null", b'"\\ud800"',
        '"ü☃"'.encode(), b'[1,{"y":[]}]',
    ],
)  # fmt: skip
def test_activity_is_given_on_as_it_was_sent(text: bytes) -> None:
    assert activity_of(text) == b'{"x":%b,"authenticated_user":"u"}' % text


def test_number_with_digits_to_spare_is_the_same_number() -> None:
    assert activity_of(b"0.10000000000000001") == activity_of(b"0.1")


def test_user_is_set_whatever_stood_there() -> None:
    assert activity_text({"authenticated_user": {"a": 1}, "b": 2}, "me") == b'{"authenticated_user":"me","b":2}'


def test_activity_whose_numbers_grow_is_refused() -> None:
    numbers = [1e15] * (ACTIVITY_BYTES_MAX // 19)
    with pytest.raises(DecodeError, match="numbers written out"):
        activity_text({"x": numbers}, "u")


# -- lines of a stream ---------------------------------------------------------------------------------------------


def test_lines_are_cut_wherever_the_stream_is() -> None:
    reader, found = LineReader(), list[bytes]()
    for at in range(9):
        reader.feed(b"ab\n\nc\nde\n"[at : at + 1])
        while (line := reader.next_line()) is not None:
            found.append(line)
    assert found == [b"ab", b"", b"c", b"de"]


def test_line_of_the_largest_size_is_taken() -> None:
    reader = LineReader()
    reader.feed(b"x" * LINE_BYTES_MAX + b"\n")
    assert reader.next_line() == b"x" * LINE_BYTES_MAX


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_line_that_is_longer_is_refused(end: bytes) -> None:
    reader = LineReader()
    reader.feed(b"x" * (LINE_BYTES_MAX + 1) + end)
    with pytest.raises(DecodeError, match="at most 65536 bytes"):
        reader.next_line()
