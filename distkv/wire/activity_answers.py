"""The lines that a node sends to clients of the activity network.

Knows: which there are, and how each is written and read.  Does not know when one is sent.

Invariant: a line that was written is read as the same value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.wire.activity_lines import (
    CLIENT_CHARS_MAX,
    NUMBER_MAX,
    ORIGIN_CHARS_MAX,
    bad_line,
    encode,
    read_command,
    read_map,
    read_object,
    read_text,
)

HOST_CHARS_MAX: Final = 255
CODE_CHARS_MAX: Final = 64
REFUSALS: Final = ("REGISTER_FAILED", "LOGIN_FAILED", "AUTHENTICATION_FAIL", "INVALID_MESSAGE")
"""After each of these the connection is closed."""


@attrs.frozen
class RegisteredLine:
    """The name is his who asked."""

    info: str


@attrs.frozen
class LoggedInLine:
    """From now on the client is told every activity."""

    info: str
    at: Mapping[str, int] | None = None
    """To begin its map with; None: it does not resume."""
    client: str | None = None


@attrs.frozen
class RedirectLine:
    """The client is to go to another node."""

    host: str
    port: int
    resume: Mapping[str, int] | None = None


@attrs.frozen
class RefusedLine:
    """Something was not done, and the connection ends."""

    command: str
    info: str
    code: str | None = None
    """That of the error, for programs."""


@attrs.frozen
class TakenLine:
    """To who asked for it: of his activities for which this did not come the first is called so, as is its echo."""

    origin: str
    number: int


@attrs.frozen
class BroadcastLine:
    """An activity of somebody."""

    activity: Mapping[str, object]
    origin: str | None = None
    """None: the server numbers nothing."""
    number: int = 0


@attrs.frozen
class GapLine:
    """These activities of an origin will not come."""

    origin: str
    first: int
    last: int


AnswerLine: TypeAlias = RegisteredLine | LoggedInLine | RedirectLine | RefusedLine | TakenLine
ServerLine: TypeAlias = AnswerLine | BroadcastLine | GapLine


def encode_answer(line: AnswerLine) -> bytes:
    """With its end. An activity is written by `broadcast_line`."""
    match line:
        case RegisteredLine(info):
            fields: dict[str, object] = {"command": "REGISTER_SUCCESS", "info": info}
        case LoggedInLine(info, at, client):
            fields = {"command": "LOGIN_SUCCESS", "info": info, "at": at, "client": client}
        case RedirectLine(host, port, resume):
            fields = {"command": "REDIRECT", "hostname": host, "port": port, "resume": resume}
        case RefusedLine(command, info, code):
            fields = {"command": command, "info": info, "code": code}
        case TakenLine(origin, number):
            fields = {"command": "ACTIVITY_TAKEN", "origin": origin, "number": number}
        case _:
            assert_never(line)
    return encode({name: value for name, value in fields.items() if value is not None}) + b"\n"


def broadcast_line(origin: str, number: int, activity: bytes) -> bytes:
    """An activity for all who are logged in; it is JSON already."""
    return b'{"command":"ACTIVITY_BROADCAST","activity":%b,"origin":%b,"number":%d}\n' % (
        activity, encode(origin), number,
    )  # fmt: skip


def gap_line(origin: str, first: int, last: int) -> bytes:
    """Some activities that will not come, for all who resume."""
    return encode({"command": "ACTIVITY_GAP", "origin": origin, "first": first, "last": last}) + b"\n"


def read_answer(line: bytes) -> ServerLine:
    """What a node says.

    Raises:
        DecodeError: no node says that.
    """
    fields = read_object(line)
    match command := read_command(fields):
        case "ACTIVITY_BROADCAST":
            return _read_broadcast(fields)
        case "ACTIVITY_GAP":
            first, last = _read_number(fields, "first"), _read_number(fields, "last")
            return GapLine(read_text(fields, "origin", ORIGIN_CHARS_MAX), first, last)
        case "ACTIVITY_TAKEN":
            return TakenLine(read_text(fields, "origin", ORIGIN_CHARS_MAX), _read_number(fields, "number"))
        case "LOGIN_SUCCESS":
            at = read_map(fields, "at") if "at" in fields else None
            client = read_text(fields, "client", CLIENT_CHARS_MAX) if "client" in fields else None
            return LoggedInLine(_read_info(fields), at, client)
        case "REDIRECT":
            resume = read_map(fields, "resume") if "resume" in fields else None
            return RedirectLine(read_text(fields, "hostname", HOST_CHARS_MAX), _read_port(fields), resume)
        case "REGISTER_SUCCESS":
            return RegisteredLine(_read_info(fields))
        case _ if command in REFUSALS:
            code = read_text(fields, "code", CODE_CHARS_MAX) if "code" in fields else None
            return RefusedLine(command, _read_info(fields), code)
    raise bad_line("the server sent a command that is unknown")


def _read_broadcast(fields: Mapping[str, object]) -> BroadcastLine:
    activity = fields.get("activity")
    if not isinstance(activity, dict):
        raise bad_line("the field activity must be an object")
    if "origin" not in fields:
        return BroadcastLine(activity)
    return BroadcastLine(activity, read_text(fields, "origin", ORIGIN_CHARS_MAX), _read_number(fields, "number"))


def _read_number(fields: Mapping[str, object], name: str, high: int = NUMBER_MAX) -> int:
    found = fields.get(name)
    if type(found) is not int or not 1 <= found <= high:
        raise bad_line(f"the field {name} must be a whole number of 1 or more")
    return found


def _read_port(fields: Mapping[str, object]) -> int:
    return _read_number(fields, "port", 65535)


def _read_info(fields: Mapping[str, object]) -> str:
    found = fields.get("info", "")
    if not isinstance(found, str):
        raise bad_line("the field info must be text")
    return found
