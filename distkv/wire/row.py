"""The row of a request: its action, its type, how its fields are read and written, when and how it is answered.

Knows: the form of a row.  Does not know which requests there are, nor frames.

Invariant: `read` reads what `write` wrote as the same request.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from distkv.errors import RequestError
from distkv.model.event import TICK_MAX
from distkv.wire import packing
from distkv.wire.fields import Fields

Asked = TypeVar("Asked")
Found = TypeVar("Found", covariant=True)

Read: TypeAlias = Callable[[int, Fields, bytes], Found]
"""Makes a request of its `seq`, its fields, and the frame, in which values are bytes still.

Raises RequestError or DecodeError, which name the field."""
Write: TypeAlias = Callable[[Asked, dict[str, object], dict[str, bytes]], None]
"""Puts what a request has besides `seq` and `action` into fields; what is packed already, into the second of them."""

COUNT_MAX: Final = 2**31 - 1
SEQ_MAX: Final = TICK_MAX

REPLICA_FIELDS: Final = ("replicas", "timeout")
"""How many nodes are to hold a write before it is answered, and how long that may take (`replicated`)."""

WAIT_S_MAX: Final = 3600.0
"""How long a request may ask to be kept waiting."""


class When(Enum):
    """In which states a node answers; in the others it refuses (`services.session`)."""

    SERVING = "``ready``, ``cut-off``"
    ALWAYS = "every state"
    SPONSORING = "when the node can sponsor"
    """A rule of the core says it (START-4)."""


class ReplyForm(Enum):
    """The form of the reply, if nothing refuses the request."""

    SIMPLE = "one reply at once"
    LATER = "one reply when it is due"
    """Other replies go before it."""
    LONG = "a long result"
    OPEN = "a long result that only ``stop`` ends"


@attrs.frozen
class RequestRow(Generic[Asked, Found]):
    """One request. Several may have one action, whose reader is the same then, and finds out which it is."""

    action: str
    type: type[Asked]
    read: Read[Found]
    write: Write[Asked] | None
    """None: it is only read; another action says the same."""
    form: ReplyForm = ReplyForm.SIMPLE
    when: When = When.SERVING
    is_replicable: bool = False
    """Whether it is a write that may ask to be answered when other nodes hold it (`replicated`)."""


AnyRow: TypeAlias = RequestRow[Any, Found]
"""Of one of several requests; `Found` are all of them."""


# -- what several requests have to check --------------------------------------------------------------------------


def refuse(fields: Fields, names: tuple[str, ...], why: str) -> None:
    """Fields that the sender means to be heeded, and that would be ignored."""
    for name in names:
        if name in fields:
            raise RequestError(f"the field '{name}' {why}: leave it out")


def check_fields(frame: bytes) -> None:
    """Nothing may be said twice: which of the two would hold?"""
    names = [packing.unpack(key) for key, _ in packing.split_map(frame)]
    if len({(type(name), name) for name in names}) < len(names):
        raise RequestError("the request has a field twice")
