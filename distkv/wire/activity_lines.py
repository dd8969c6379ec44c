"""The lines that clients of the activity network send: one JSON object each.

Knows: how a stream becomes lines, which commands there are, and what is wrong with a line.  Does not know who may send
one, nor what follows from it.

Invariant: a line that is read means one thing only: no key stands twice, each field has its type, and each number is
kept as it was written. What is wrong is said in one sentence, without what a secret was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isinf
from typing import Final, NoReturn, TypeAlias
from unicodedata import category

import attrs

from distkv.errors import DecodeError

LINE_BYTES_MAX: Final = 64 << 10
"""Of a line, without its end."""
ACTIVITY_BYTES_MAX: Final = LINE_BYTES_MAX + 1024
"""Of an activity as it is given to others: it has the name of who sent it, too."""
LEVELS_MAX: Final = 64
NAME_CHARS_MAX: Final = 64
SECRET_BYTES_MAX: Final = 256
RESUME_MAX: Final = 1000
"""So many origins has a map of where to resume."""
ORIGIN_CHARS_MAX: Final = 128
CLIENT_CHARS_MAX: Final = 512
NUMBER_MAX: Final = 2**63 - 1
ANONYMOUS: Final = "anonymous"
"""Whoever logs in under this name needs no secret."""
USER_FIELD: Final = "authenticated_user"
"""Says in an activity who sent it, whatever stood there."""

DIGITS_KEPT: Final = 17
"""So many digits of a number that is no whole one are kept, as every reader of JSON does."""


@attrs.frozen
class RegisterLine:
    """Somebody wants a name."""

    username: str
    secret: bytes = attrs.field(repr=False)


@attrs.frozen
class LoginLine:
    """Somebody says who he is, and perhaps where he was."""

    username: str
    secret: bytes | None = attrs.field(default=None, repr=False)
    resume: Mapping[str, int] | None = None
    """Up to which number he was told of each origin; None: he does not resume."""
    client: str | None = None
    """What the last answer to a login said he is."""
    taken: bool = False
    """Whether he wants to be told what each of his activities is called."""


@attrs.frozen
class ActivityLine:
    """An activity for everybody."""

    username: str
    secret: bytes | None = attrs.field(repr=False)
    activity: Mapping[str, object] = attrs.field(repr=False)


@attrs.frozen
class LogoutLine:
    """The end."""


ClientLine: TypeAlias = RegisterLine | LoginLine | ActivityLine | LogoutLine


class LineReader:
    """The lines of one stream."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._looked = 0
        """In the first so many bytes there is no end of a line."""

    def feed(self, data: bytes) -> None:
        """What came."""
        self._data += data

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return len(self._data)

    def next_line(self) -> bytes | None:
        """The next line, without its end; None: it has not come whole.

        Raises:
            DecodeError: it is too long.
        """
        end = self._data.find(b"\n", self._looked, LINE_BYTES_MAX + 1)
        if end < 0:
            self._looked = len(self._data)
            if self._looked > LINE_BYTES_MAX:
                raise bad_line(f"a message has at most {LINE_BYTES_MAX} bytes")
            return None
        line = bytes(self._data[:end])
        del self._data[: end + 1]
        self._looked = 0
        return line

    def put_back(self, line: bytes) -> None:
        """It is the next line again."""
        self._data[:0] = line + b"\n"
        self._looked = 0


def bad_line(info: str) -> DecodeError:
    """Something is wrong with a line."""
    return DecodeError(info, "activity_line")


def read_line(line: bytes) -> ClientLine:
    """What a client says.

    Raises:
        DecodeError: it is nothing that can be said.
    """
    fields = read_object(line)
    match command := read_command(fields):
        case "REGISTER":
            username, secret = _read_username(fields), _read_secret(fields)
            if not secret:
                raise _bad_secret()
            return RegisterLine(username, secret)
        case "LOGIN":
            return _read_login(fields)
        case "ACTIVITY_MESSAGE":
            username, secret, activity = _read_username(fields), _read_secret(fields), fields.get("activity")
            if not isinstance(activity, dict):
                raise bad_line("the field activity must be an object")
            return ActivityLine(username, secret, activity)
        case "LOGOUT":
            return LogoutLine()
    raise bad_line(f"the command {shown(command)} is unknown")


def read_object(line: bytes) -> dict[str, object]:
    """The object that is the whole line.

    Raises:
        DecodeError: it is no object, or one that could be read in two ways.
    """
    try:
        text = line.decode()
        found = json.loads(
            text, object_pairs_hook=_object, parse_float=_number, parse_int=_whole_number, parse_constant=_constant
        )
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise bad_line("JSON parse error while parsing message") from None
    if not isinstance(found, dict):
        raise bad_line("the received message is not a JSON object")
    if text.count("{") + text.count("[") > LEVELS_MAX and _is_too_deep(found):
        raise _too_deep()
    return found


def read_command(fields: Mapping[str, object]) -> str:
    """What a line is.

    Raises:
        DecodeError: it does not say so.
    """
    if "command" not in fields:
        raise bad_line("the received message did not contain a command")
    found = fields["command"]
    if not isinstance(found, str):
        raise bad_line("the field command must be text")
    return found


def read_text(fields: Mapping[str, object], name: str, chars_max: int) -> str:
    """A field that is text.

    Raises:
        DecodeError: it is none, or too long, or no text that can be written.
    """
    found = fields.get(name)
    if not isinstance(found, str) or not is_text(found, chars_max):
        raise bad_line(f"the field {name} must be text of 1 to {chars_max} characters, without control characters")
    return found


def is_text(text: str, chars_max: int) -> bool:
    """Whether it is as long as a name, and has neither control characters nor half of one."""
    return 0 < len(text) <= chars_max and all(category(char) not in ("Cc", "Cs") for char in text)


def read_map(fields: Mapping[str, object], name: str) -> Mapping[str, int]:
    """A map from origins to numbers.

    Raises:
        DecodeError: it is none, or too large.
    """
    found = fields[name]
    if not isinstance(found, dict) or len(found) > RESUME_MAX:
        raise bad_line(f"the field {name} must be an object of at most {RESUME_MAX} origins")
    for origin, number in found.items():
        if not is_text(origin, ORIGIN_CHARS_MAX) or type(number) is not int or not 0 <= number <= NUMBER_MAX:
            raise bad_line(f"the field {name} must have a whole number for each origin")
    return found


def shown(text: str) -> str:
    """As part of a sentence."""
    return json.dumps(text if len(text) <= NAME_CHARS_MAX else f"{text[:NAME_CHARS_MAX]}...")


def activity_text(activity: Mapping[str, object], user: str) -> bytes:
    """An activity as it is given to others, with the name of who sent it.

    Raises:
        DecodeError: it is too long, written so.
    """
    found = encode({**activity, USER_FIELD: user})
    if len(found) > ACTIVITY_BYTES_MAX:
        raise bad_line(f"an activity has at most {ACTIVITY_BYTES_MAX} bytes, its numbers written out")
    return found


def encode(value: object) -> bytes:
    """As JSON in one line. Half a character, which UTF-8 cannot say, is written as it came: as `\\ud800`."""
    found = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return found.encode(errors="backslashreplace")


# -- inside -------------------------------------------------------------------------------------------------------


def _read_login(fields: Mapping[str, object]) -> LoginLine:
    username, secret = _read_username(fields), _read_secret(fields)
    if not secret and username != ANONYMOUS:
        raise _bad_secret()
    resume = read_map(fields, "resume") if "resume" in fields else None
    client = read_text(fields, "client", CLIENT_CHARS_MAX) if "client" in fields else None
    taken = fields.get("taken", False)
    if not isinstance(taken, bool):
        raise bad_line("the field taken must be true or false")
    return LoginLine(username, None if username == ANONYMOUS else secret, resume, client, taken)


def _read_username(fields: Mapping[str, object]) -> str:
    return read_text(fields, "username", NAME_CHARS_MAX)


def _read_secret(fields: Mapping[str, object]) -> bytes | None:
    if "secret" not in fields:
        return None
    found = fields["secret"]
    try:
        secret = found.encode() if isinstance(found, str) else None
    except UnicodeEncodeError:
        secret = None
    if secret is None or len(secret) > SECRET_BYTES_MAX:
        raise _bad_secret()
    return secret


def _bad_secret() -> DecodeError:
    return bad_line(f"the field secret must be text of 1 to {SECRET_BYTES_MAX} bytes")


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise bad_line(f"the key {shown(twice)} stands twice in an object")
    return found


def _number(text: str) -> float:
    found = float(text)
    digits = text.lower().partition("e")[0].replace(".", "").lstrip("-0")
    is_out_of_range = isinf(found) or (found == 0 and digits != "")
    if is_out_of_range or (len(digits) > DIGITS_KEPT and Decimal(text) != Decimal(repr(found))):
        raise _not_kept()
    return found


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _not_kept() from None


def _not_kept() -> DecodeError:
    return bad_line("a number has more digits, or is larger or smaller, than can be kept: send it as text")


def _constant(_: str) -> NoReturn:
    raise bad_line("JSON parse error while parsing message")


def _too_deep() -> DecodeError:
    return bad_line(f"a message has at most {LEVELS_MAX} levels")


def _is_too_deep(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(LEVELS_MAX):
        level = [
            inner
            for one in level
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return any(isinstance(one, (dict, list)) for one in level)
