"""A client's half of the activity network: what it says on each connection, and what the user gets.

Knows: lines of a node, as a test says them.  Does not know sockets.
"""

from __future__ import annotations

import json

import pytest

from distkv.client.activity import ActivityHalf, ActivityMessage, ActivityMissed, SendUnknownError
from distkv.errors import (
    BadValueError,
    BusyError,
    DistkvError,
    ForbiddenError,
    PeerError,
    RequestError,
    TooLargeError,
)
from distkv.wire.activity_answers import (
    AnswerLine,
    LoggedInLine,
    RedirectLine,
    RefusedLine,
    TakenLine,
    broadcast_line,
    encode_answer,
    gap_line,
)


class Half(ActivityHalf):
    """With what a test says to it."""

    def hear(self, *lines: AnswerLine | bytes) -> None:
        for line in lines:
            self.take(line if isinstance(line, bytes) else encode_answer(line))
            self.check()

    def enter(self, at: dict[str, int] | None = None, client: str = "c") -> dict[str, object]:
        """Connect and log in; what it said for that."""
        said: dict[str, object] = json.loads(self.connected())
        self.hear(LoggedInLine("", at or {}, client))
        return said

    def told(self) -> list[object]:
        """What the user is given."""
        found = [one.number if isinstance(one, ActivityMessage) else one for one in self.news]
        self.news.clear()
        return found

    def begin(self, activity: dict[str, object]) -> int:
        """Send something, at once if it is logged in."""
        number = self.send(activity)
        self.take_lines()
        return number


def half(at: dict[str, int] | None = None) -> Half:
    found = Half("anonymous", None)
    found.enter(at)
    return found


def said(number: int, origin: str = "a.1") -> bytes:
    return broadcast_line(origin, number, b'{"x":1,"authenticated_user":"u"}')


# -- what the user is told -----------------------------------------------------------------------------------------


def test_first_login_has_an_empty_map_and_a_later_one_all_that_was_told() -> None:
    client = Half("aaron", "s")
    first = client.enter({"a.1": 3})
    client.hear(said(4), said(1, "b.1"))
    client.lost()
    assert first == {"command": "LOGIN", "username": "aaron", "secret": "s", "resume": {}, "taken": True}
    assert client.enter() == {**first, "resume": {"a.1": 4, "b.1": 1}, "client": "c"}


def test_activity_that_was_told_before_is_not_told_again() -> None:
    client = half({"a.1": 3})
    client.hear(said(3), said(4), said(4), said(5))
    assert client.told() == [4, 5]


def test_message_says_who_said_it() -> None:
    client = half()
    client.hear(said(1))
    assert client.news.popleft() == ActivityMessage({"x": 1, "authenticated_user": "u"}, "a.1", 1)


def test_gap_is_told_and_counts_as_told() -> None:
    client = half({"a.1": 3})
    client.hear(gap_line("a.1", 4, 6), said(5), said(7))
    assert client.told() == [ActivityMissed("a.1", 4, 6), 7]


def test_who_does_not_listen_is_given_nothing() -> None:
    client = Half("anonymous", None, listens=False)
    client.enter()
    client.hear(said(1))
    assert client.told() == []


@pytest.mark.parametrize("line", [b"x\n", b'{"command":"LOGIN"}\n', b'{"command":"LOGIN_SUCCESS"}\n', b"x" * 70_000])
def test_what_no_node_says_is_the_end(line: bytes) -> None:
    client = Half("anonymous", None)
    client.connected()
    client.take(line)
    assert isinstance(client.error, PeerError)


# -- what is sent --------------------------------------------------------------------------------------------------


def test_what_is_sent_waits_for_the_login() -> None:
    client = Half("anonymous", None)
    client.connected()
    client.send({"a": 1})
    assert client.take_lines() == b""
    client.hear(LoggedInLine("", {}, "c"))
    assert json.loads(client.take_lines()) == {
        "command": "ACTIVITY_MESSAGE", "username": "anonymous", "activity": {"a": 1},
    }  # fmt: skip
    assert client.take_lines() == b""


def test_echo_is_the_number_under_which_it_was_taken() -> None:
    client = half()
    number = client.begin({"x": 1})
    client.hear(said(1), TakenLine("a.1", 2))
    assert not client.has_result(number)
    client.hear(said(2))
    assert client.result(number) is None


def test_echo_may_come_before_it_is_said_to_be_taken() -> None:
    client = half()
    number = client.begin({"x": 1})
    client.hear(said(1), TakenLine("a.1", 1))
    assert client.result(number) is None


@pytest.mark.parametrize("heard", [(), (TakenLine("a.1", 1),)])
def test_nobody_knows_what_becomes_of_what_was_sent_when_the_connection_breaks(heard: tuple[AnswerLine, ...]) -> None:
    client = half()
    number = client.begin({"x": 1})
    client.hear(*heard)
    client.lost()
    assert isinstance(client.result(number), SendUnknownError)


def test_echo_on_a_later_connection_promises_nothing() -> None:
    client = half()
    number = client.begin({"x": 1})
    client.hear(TakenLine("a.1", 1))
    client.lost()
    client.enter()
    client.hear(said(1))
    assert isinstance(client.result(number), SendUnknownError)


def test_what_was_not_taken_before_a_redirect_is_sent_to_the_next_node() -> None:
    client = half()
    numbers = [client.begin({"x": x}) for x in range(2)]
    client.hear(TakenLine("a.1", 1), RedirectLine("host", 7, {}))
    client.lost()
    assert client.redirect == ("host", 7)
    client.enter()
    assert json.loads(client.take_lines())["activity"] == {"x": 1}
    assert [client.has_result(number) for number in numbers] == [True, False]


def test_refusal_is_about_the_first_that_was_not_taken() -> None:
    client = half()
    first, second = client.begin({"x": 1}), client.begin({"x": 2})
    client.hear(RefusedLine("INVALID_MESSAGE", "why"))
    client.lost()
    refusal = client.result(first)
    assert (type(refusal), str(refusal)) == (RequestError, "why")
    client.enter()
    assert b'"x":2' in client.take_lines()
    assert not client.has_result(second)


def test_activity_for_which_nobody_waits_is_not_sent() -> None:
    client = Half("anonymous", None)
    client.give_up(client.send({"x": 1}))
    client.enter()
    assert client.take_lines() == b""


@pytest.mark.parametrize(
    ("activity", "error"),
    [
        ({"x": float("nan")}, BadValueError), ({"x": {1}}, BadValueError), ({"x": b""}, BadValueError),
        ({"x": "y" * 70_000}, TooLargeError), ([], BadValueError),
    ],
)  # fmt: skip
def test_what_is_no_activity_is_refused_at_once(activity: dict[str, object], error: type[DistkvError]) -> None:
    with pytest.raises(error):
        half().send(activity)


def test_activity_beyond_those_that_may_wait_is_refused() -> None:
    client = half()
    for x in range(1000):
        client.send({"x": x})
    with pytest.raises(BusyError):
        client.send({})


# -- logins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("user", "secret"), [("", "s"), ("x" * 65, "s"), ("aaron", None), ("aaron", "")])
def test_who_can_be_nobody_is_refused_at_once(user: str, secret: str | None) -> None:
    with pytest.raises(BadValueError):
        ActivityHalf(user, secret)


def test_wrong_secret_is_the_end() -> None:
    client = Half("aaron", "s")
    number = client.send({})
    client.connected()
    client.hear(RefusedLine("LOGIN_FAILED", "attempt to login with wrong secret", "forbidden"))
    assert isinstance(client.error, ForbiddenError)
    assert client.result(number) is client.error


@pytest.mark.parametrize("code", ["busy", "not_ready"])
def test_refusal_by_load_is_no_end(code: str) -> None:
    client = Half("aaron", "s")
    client.connected()
    client.hear(RefusedLine("LOGIN_FAILED", "full", code))
    assert client.error is None
    assert client.is_ending


def test_no_secret_is_shown() -> None:
    assert "geheim" not in repr(ActivityHalf("aaron", "geheim"))
