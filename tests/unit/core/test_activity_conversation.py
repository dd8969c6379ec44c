"""What a client of the activity network and its node say to each other, without a socket.

Knows: lines, and what is wanted of the services.  Does not know the services.
"""

from __future__ import annotations

import json

import pytest

from distkv.core.activity.conversation import (
    TOGETHER_BYTES,
    ActivityTalk,
    Checking,
    CloseTalk,
    Ending,
    Entering,
    Registering,
    SayLines,
    Sending,
    TalkEffect,
    TellMissed,
    line_of,
)
from distkv.core.activity.requests import ActivityGap, ActivityItem
from distkv.errors import BusyError, RequestError
from distkv.wire.activity_lines import LINE_BYTES_MAX

LOGIN = {"command": "LOGIN", "username": "anonymous"}
LOGIN_AARON = {"command": "LOGIN", "username": "aaron", "secret": "s"}
REGISTER = {"command": "REGISTER", "username": "aaron", "secret": "s"}
ACTIVITY = {"command": "ACTIVITY_MESSAGE", "username": "anonymous", "activity": {"a": 1}}
ACTIVITY_OF_AARON = {**ACTIVITY, "username": "aaron"}


class Talk(ActivityTalk):
    """With what a test says to it."""

    def send(self, *lines: dict[str, object] | bytes) -> list[TalkEffect]:
        """All that follows at once."""
        for line in lines:
            self.feed(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        found = list[TalkEffect]()
        while (some := self.next()) is not None:
            found += some
            self.check()
        return found


def logged_in(login: dict[str, object] | None = None, together_max: int = 1) -> Talk:
    talk = Talk(together_max)
    for effect in talk.send(login or LOGIN):
        if isinstance(effect, Checking):
            talk.checked(None)
    talk.entered(None, None, ())
    return talk


def said(effects: list[TalkEffect]) -> list[tuple[str, str]]:
    """The commands that are sent, with their info."""
    lines = list[bytes]()
    for effect in effects:
        if isinstance(effect, SayLines):
            lines += effect.lines.splitlines()
        elif isinstance(effect, TellMissed):
            lines += map(line_of, effect.items)
    return [(fields["command"], fields.get("info", "")) for fields in map(json.loads, lines)]


def ending(effects: list[TalkEffect]) -> Ending:
    """Why it is over, after what is said."""
    assert isinstance(effects[-1], CloseTalk)
    return effects[-1].ending


# -- login and registration ----------------------------------------------------------------------------------------


def test_anonymous_is_logged_in_without_a_question_about_a_secret() -> None:
    assert Talk().send(LOGIN) == [Entering("anonymous", None, None)]


def test_login_says_where_the_client_was() -> None:
    assert Talk().send({**LOGIN, "resume": {"a.1": 7}, "client": "c"}) == [Entering("anonymous", {"a.1": 7}, "c")]


def test_secret_is_looked_at_before_anybody_is_logged_in() -> None:
    talk = Talk()
    assert talk.send(LOGIN_AARON) == [Checking("aaron", b"s")]
    assert talk.checked(None) == [Entering("aaron", None, None)]
    assert said(talk.entered(None, None, ())) == [("LOGIN_SUCCESS", "logged in as user aaron")]


def test_wrong_secret_ends_it() -> None:
    talk = Talk()
    talk.send(LOGIN_AARON)
    found = talk.checked(RequestError("attempt to login with wrong secret"))
    assert said(found) == [("LOGIN_FAILED", "attempt to login with wrong secret")]
    assert ending(found) is Ending.NOT_LOGGED_IN


def test_login_that_the_service_refuses_ends_it() -> None:
    talk = Talk()
    talk.send(LOGIN)
    assert said(talk.refused(BusyError("full"))) == [("LOGIN_FAILED", "full")]


def test_what_a_client_missed_comes_behind_the_answer_to_its_login() -> None:
    talk = Talk()
    talk.send({**LOGIN, "resume": {"a.1": 1}})
    found = talk.entered({"a.1": 1}, "c", (ActivityItem("a.1", 2, b"{}"), ActivityGap("a.1", 3, 4)))
    assert [command for command, _ in said(found)] == ["LOGIN_SUCCESS", "ACTIVITY_BROADCAST", "ACTIVITY_GAP"]


@pytest.mark.parametrize("line", [LOGIN, LOGIN_AARON, REGISTER])
def test_who_is_logged_in_cannot_log_in_or_register(line: dict[str, object]) -> None:
    found = logged_in().send(line)
    assert (said(found)[0][0], ending(found)) == ("INVALID_MESSAGE", Ending.INVALID)


def test_registration_leaves_the_connection_open() -> None:
    talk = Talk()
    assert talk.send(REGISTER) == [Registering("aaron", b"s")]
    assert said(talk.registered(None)) == [("REGISTER_SUCCESS", "register success for aaron")]
    assert talk.send(LOGIN_AARON) == [Checking("aaron", b"s")]


def test_registration_that_fails_ends_it() -> None:
    talk = Talk()
    talk.send(REGISTER)
    found = talk.registered(RequestError("aaron is already registered with the system"))
    assert said(found) == [("REGISTER_FAILED", "aaron is already registered with the system")]
    assert ending(found) is Ending.NOT_REGISTERED


def test_nobody_registers_the_name_of_all() -> None:
    assert said(Talk().send({**REGISTER, "username": "anonymous"}))[0][0] == "REGISTER_FAILED"


# -- activities ----------------------------------------------------------------------------------------------------


def test_activity_has_the_name_of_its_sender() -> None:
    assert logged_in().send(ACTIVITY) == [Sending((b'{"a":1,"authenticated_user":"anonymous"}',))]


def test_next_message_is_read_when_the_activity_is_taken() -> None:
    talk = logged_in()
    assert len(talk.send(ACTIVITY, ACTIVITY)) == 1
    assert talk.taken("a.1", 1, 1) == []
    assert len(talk.send()) == 1


def sent(effects: list[TalkEffect]) -> list[int]:
    """How many activities are given together."""
    return [len(effect.activities) for effect in effects if isinstance(effect, Sending)]


def test_activities_that_come_together_are_given_together() -> None:
    assert sent(logged_in(together_max=3).send(*[ACTIVITY] * 4)) == [3]


def test_activities_with_many_bytes_are_given_one_after_the_other() -> None:
    large = {**ACTIVITY, "activity": {"a": "x" * (TOGETHER_BYTES - 1000)}}
    assert sent(logged_in(together_max=9).send(large, ACTIVITY, large, large, ACTIVITY)) == [3]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ({**ACTIVITY, "username": "berta"}, "AUTHENTICATION_FAIL"),
        ({**ACTIVITY, "activity": 1}, "INVALID_MESSAGE"),
        (LOGIN, "INVALID_MESSAGE"),
        (b"x" * (LINE_BYTES_MAX + 1), "INVALID_MESSAGE"),
    ],
)
def test_what_is_wrong_behind_activities_is_said_when_they_are_taken(
    line: dict[str, object] | bytes, command: str
) -> None:
    talk = logged_in(together_max=9)
    assert sent(talk.send(ACTIVITY, ACTIVITY, line)) == [2]
    assert talk.taken("a.1", 1, 2) == []
    assert said(talk.send())[0][0] == command


def test_each_of_several_activities_is_called_something() -> None:
    talk = logged_in({**LOGIN, "taken": True}, together_max=9)
    talk.send(ACTIVITY, ACTIVITY)
    (found,) = talk.taken("a.1", 7, 8)
    assert isinstance(found, SayLines)
    assert [json.loads(line)["number"] for line in found.lines.splitlines()] == [7, 8]


def test_who_asks_for_it_is_told_what_an_activity_is_called() -> None:
    talk = logged_in({**LOGIN, "taken": True})
    talk.send(ACTIVITY)
    (found,) = talk.taken("a.1", 7, 7)
    assert isinstance(found, SayLines)
    assert not found.is_last
    assert json.loads(found.lines) == {"command": "ACTIVITY_TAKEN", "origin": "a.1", "number": 7}


def test_client_is_sent_elsewhere_when_what_it_sent_is_taken() -> None:
    talk = logged_in()
    talk.send(ACTIVITY)
    assert talk.moved("host", 7, None) == []
    assert ending(talk.taken("a.1", 7, 7)) is Ending.MOVED


def test_activity_before_a_login_is_no_right() -> None:
    found = Talk().send(ACTIVITY)
    assert (said(found)[0][0], ending(found)) == ("AUTHENTICATION_FAIL", Ending.NO_RIGHT)


@pytest.mark.parametrize("other", [{"username": "berta"}, {"username": "anonymous"}, {"secret": "other"}])
def test_activity_of_somebody_else_is_no_right(other: dict[str, object]) -> None:
    found = logged_in(LOGIN_AARON).send({**ACTIVITY_OF_AARON, **other})
    assert (said(found)[0][0], ending(found)) == ("AUTHENTICATION_FAIL", Ending.NO_RIGHT)


@pytest.mark.parametrize("same", [{}, {"secret": "s"}])
def test_activity_may_repeat_the_secret_or_leave_it_out(same: dict[str, object]) -> None:
    assert isinstance(logged_in(LOGIN_AARON).send({**ACTIVITY_OF_AARON, **same})[0], Sending)


def test_secret_of_an_anonymous_activity_is_ignored() -> None:
    assert isinstance(logged_in().send({**ACTIVITY, "secret": "any"})[0], Sending)


def test_form_is_looked_at_before_rights() -> None:
    assert said(Talk().send({**ACTIVITY, "activity": 1}))[0][0] == "INVALID_MESSAGE"


def test_activity_that_grows_too_large_is_a_matter_of_form() -> None:
    line = json.dumps({**ACTIVITY, "activity": {"x": ["number"] * 9000}}).replace('"number"', "1E15").replace(", ", ",")
    assert said(Talk().send(line.encode() + b"\n")) == [
        ("INVALID_MESSAGE", "an activity has at most 66560 bytes, its numbers written out")
    ]


def test_activity_that_cannot_be_taken_ends_it() -> None:
    talk = logged_in()
    talk.send(ACTIVITY)
    assert said(talk.not_taken(BusyError("full"))) == [("INVALID_MESSAGE", "full")]


# -- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("login", [None, LOGIN])
def test_logout_is_answered_by_the_end_alone(login: dict[str, object] | None) -> None:
    talk = Talk() if login is None else logged_in(login)
    assert talk.send({"command": "LOGOUT"}) == [CloseTalk(Ending.LOGOUT)]


def test_nothing_is_read_behind_the_last_word() -> None:
    assert said(Talk().send(b"x\n", b"x\n", LOGIN)) == [("INVALID_MESSAGE", "JSON parse error while parsing message")]


@pytest.mark.parametrize("login", [LOGIN, LOGIN_AARON])
def test_answers_that_come_behind_the_end_change_nothing(login: dict[str, object]) -> None:
    talk = Talk()
    talk.send(login)
    talk.refuse("over")
    late = [talk.registered(None), talk.checked(None), talk.entered(None, None, ()), talk.taken("a.1", 1, 1)]
    late += [talk.not_taken(BusyError("full")), talk.refused(BusyError("full"))]
    late += [talk.moved("host", 1, None), talk.refuse("again")]
    assert late == [[]] * len(late)


def test_client_is_sent_elsewhere() -> None:
    talk = logged_in()
    found = talk.moved("host", 7, {"a.1": 3})
    assert ending(found) is Ending.MOVED
    assert isinstance(found[0], SayLines)
    assert json.loads(found[0].lines) == {
        "command": "REDIRECT", "hostname": "host", "port": 7, "resume": {"a.1": 3},
    }  # fmt: skip


def test_client_whose_login_ends_at_the_service_is_told_so() -> None:
    found = logged_in().refused(BusyError("over"))
    assert (said(found), ending(found)) == ([("INVALID_MESSAGE", "over")], Ending.FAILED)


def test_no_secret_is_shown() -> None:
    talk = Talk()
    assert "geheim" not in repr(talk.send({**LOGIN_AARON, "secret": "geheim"}))
    assert "geheim" not in repr(vars(talk))
