"""What the two ends of calls between nodes tell each other, to bytes and back.

Knows: the form of the messages with which a service of one node asks that of another.  Does not know what is asked: a
body is bytes, which the service packs and reads.

Invariant: what is read is well-formed and bounded, whatever the fields.
"""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

import attrs

from distkv.errors import DecodeError
from distkv.wire.fields import Fields, bad, read_int, read_list

NUMBERS_MAX: Final = 1000
"""A message names no more calls than these."""
BODY_BYTES_MAX: Final = 1 << 20
"""The largest body. Who asks keeps its own smaller."""


@attrs.frozen(slots=True)
class CallAsked:
    """A question."""

    boot: int
    """Which start of the asking node it is from; a later start has a larger number."""
    number: int
    """Larger for each question of that start."""
    floor: int
    """All of the node's questions to this one with lower numbers are over."""
    body: bytes


@attrs.frozen(slots=True)
class CallAnswered:
    """The answer."""

    boot: int
    """That of the node which asked."""
    number: int
    body: bytes


@attrs.frozen(slots=True)
class CallsChecked:
    """The asking side would know what became of these."""

    boot: int
    numbers: tuple[int, ...]


@attrs.frozen(slots=True)
class CallsSeen:
    """The answering side says so; those that were answered it answers again instead."""

    boot: int
    pending: tuple[int, ...]
    unknown: tuple[int, ...]
    """Not known here: they are to be asked again."""


@attrs.frozen(slots=True)
class CallsCancelled:
    """The asking side does not want an answer any more."""

    boot: int
    numbers: tuple[int, ...]


@attrs.frozen(slots=True)
class CallsDropped:
    """The answering side has heard that."""

    boot: int
    numbers: tuple[int, ...]


CallMessage: TypeAlias = CallAsked | CallAnswered | CallsChecked | CallsSeen | CallsCancelled | CallsDropped


def call_list(message: CallMessage) -> list[object]:
    """A message as a list, to be packed."""
    match message:
        case CallAsked(boot=boot, number=number, floor=floor, body=body):
            return [1, boot, number, floor, body]
        case CallAnswered(boot=boot, number=number, body=body):
            return [2, boot, number, body]
        case CallsChecked(boot=boot, numbers=numbers):
            return [3, boot, numbers]
        case CallsSeen(boot=boot, pending=pending, unknown=unknown):
            return [4, boot, pending, unknown]
        case CallsCancelled(boot=boot, numbers=numbers):
            return [5, boot, numbers]
        case CallsDropped(boot=boot, numbers=numbers):
            return [6, boot, numbers]
        case _:
            assert_never(message)


_LENGTHS: Final = {1: 5, 2: 4, 3: 3, 4: 4, 5: 3, 6: 3}


def read_call(value: object) -> CallMessage:
    """A message.

    Raises:
        DecodeError: it is none.
    """
    parts = read_list(value, "call")
    kind = parts[0] if parts else None
    if type(kind) is not int or _LENGTHS.get(kind) != len(parts):
        raise bad("call", "[kind, boot, ...]", value)
    boot = _number(parts[1])
    if kind == 1:
        return CallAsked(boot, _number(parts[2]), _number(parts[3]), _body(parts[4]))
    if kind == 2:
        return CallAnswered(boot, _number(parts[2]), _body(parts[3]))
    numbers = _numbers(parts[2])
    if kind == 3:
        return CallsChecked(boot, numbers)
    if kind == 4:
        return CallsSeen(boot, numbers, _numbers(parts[3]))
    return CallsCancelled(boot, numbers) if kind == 5 else CallsDropped(boot, numbers)


def _number(value: object) -> int:
    fields: Fields = {"call": value}
    return read_int(fields, "call")


def _body(value: object) -> bytes:
    if type(value) is not bytes:
        raise bad("call", "made with a body of bytes", value)
    if len(value) > BODY_BYTES_MAX:
        raise DecodeError(f"a call has {len(value)} bytes; the limit is {BODY_BYTES_MAX}", "bad_call")
    return value


def _numbers(value: object) -> tuple[int, ...]:
    found = read_list(value, "call")
    if len(found) > NUMBERS_MAX:
        raise DecodeError(f"a message names {len(found)} calls; the limit is {NUMBERS_MAX}", "bad_call")
    return tuple([_number(one) for one in found])
