"""What the echo is asked and answers.

Knows: the fields of that.  Does not know who says it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from distkv.errors import RequestError
from distkv.model.lean import lean_value
from distkv.wire import packing
from distkv.wire.request_fields import COUNT_FROM_1, FLAG, NODE, FieldKind, declared, whole_number
from distkv.wire.row import ReplyForm
from distkv.wire.services import ServiceForm, ServiceItems, ServiceReply, ServiceRequest

SECRET: Final = "secret-"
"""So begin the names that no client may read."""
TEXT_CHARS_MAX: Final = 1000


@lean_value
class EchoAsk(ServiceRequest):
    """Have the echo of a node say a text backwards."""

    seq: int
    node: str
    text: str
    early: bool = False
    """Whether the question may leave before the disk has what it follows from."""


@lean_value
class EchoName(ServiceRequest):
    """Give the text of a name to all nodes; none: take it away."""

    seq: int
    name: str
    text: str | None = None


@lean_value
class EchoWatch(ServiceRequest):
    """Be told all names with their texts, and then what changes."""

    seq: int


@lean_value
class EchoHold(ServiceRequest):
    """Have an entry written by the name of a token, under its fence; the answer and the value are the fence."""

    seq: int
    token: str


@lean_value
class EchoSeal(ServiceRequest):
    """Have a text sealed, which takes a while."""

    seq: int
    text: str


@lean_value
class EchoShout(ServiceRequest):
    """Say a text to the echoes of all other nodes, so many times."""

    seq: int
    text: str
    times: int = 1


@lean_value
class EchoKeep(ServiceRequest):
    """Keep a text under a name on this node; none: not any more."""

    seq: int
    name: str
    text: str | None = None


@lean_value
class EchoRows(ServiceRequest):
    """What is kept on this node under names that begin so."""

    seq: int
    prefix: str
    make_good: bool = False
    """Whether what is in doubt of it is made good first."""


@attrs.frozen(slots=True)
class EchoKept(ServiceReply):
    """The texts by their names, and what of all texts is in doubt."""

    rows: Mapping[str, str]
    lost: tuple[str, ...]
    is_unknown: bool
    is_old: bool


@lean_value
class EchoNote(ServiceRequest):
    """Note a text under a name, at the node that keeps it (`echo_name` says which)."""

    seq: int
    name: str
    text: str
    is_once: bool = False
    """Whether it must not be noted twice."""
    has_effects: bool = False
    """Whether whoever waits in vain is told that it may be noted."""


@lean_value
class EchoList(ServiceRequest):
    """The notes of all nodes, behind a name."""

    seq: int
    limit: int = 100
    after: str = ""


@lean_value
class EchoNotes(ServiceRequest):
    """Be told all notes of all nodes, and then what changes."""

    seq: int


@attrs.frozen(slots=True)
class EchoNoted(ServiceReply):
    """A note, who keeps it, and how often that was asked to; no text: it is not kept any more."""

    name: str
    text: str | None
    node: str = ""
    count: int = 0


@attrs.frozen(slots=True)
class EchoListed(ServiceReply):
    """Some notes, and the nodes whose notes are missing."""

    items: tuple[EchoNoted, ...]
    more: bool
    away: tuple[str, ...]


@attrs.frozen(slots=True)
class EchoAway(ServiceReply):
    """Of which nodes a watch does not know the notes."""

    nodes: tuple[str, ...]


@attrs.frozen(slots=True)
class EchoNews(ServiceItems):
    """Some of the items of a watch of notes."""

    items: tuple[EchoNoted | EchoAway, ...]
    is_complete: bool = False


@attrs.frozen(slots=True)
class EchoHeard(ServiceReply):
    """What came back."""

    text: str


@attrs.frozen(slots=True)
class EchoNamed(ServiceReply):
    """A name, and its text; None: it has none any more."""

    name: str
    text: str | None


@attrs.frozen(slots=True)
class EchoChanged(ServiceItems):
    """Some of the items of a watch."""

    items: tuple[EchoNamed, ...]
    is_complete: bool = False


class EchoMuteError(RequestError):
    """The node says nothing back."""

    code = "echo_mute"


def _read_text(value: object, name: str) -> str:
    if type(value) is not str or not value or len(value) > TEXT_CHARS_MAX:
        raise RequestError(f"the field {name!r} must be text of 1 to {TEXT_CHARS_MAX} characters")
    return value


_TEXT: Final = FieldKind(_read_text)
_KEY: Final = FieldKind(lambda value, _: str(value))
"""Which may be none: the ground says so."""


def _reply_fields(
    reply: EchoHeard | EchoNamed | EchoKept | EchoNoted | EchoListed | EchoAway,
) -> tuple[Mapping[str, object], Mapping[str, bytes]]:
    if isinstance(reply, EchoKept):
        return {"rows": reply.rows, "lost": reply.lost, "unknown": reply.is_unknown, "old": reply.is_old}, {}
    if isinstance(reply, EchoHeard):
        return {"text": reply.text}, {}
    if isinstance(reply, EchoNoted):
        return attrs.asdict(reply), {}
    if isinstance(reply, EchoListed):
        return {"items": [attrs.asdict(one) for one in reply.items], "more": reply.more, "away": [*reply.away]}, {}
    if isinstance(reply, EchoAway):
        return {"away": [*reply.nodes]}, {}
    return {"name": reply.name}, {"text": packing.pack(reply.text)}


FORM: Final = ServiceForm(
    "echo",
    (
        declared("echo_ask", EchoAsk, {"node": NODE, "text": _TEXT, "early": FLAG}, ReplyForm.LATER),
        declared("echo_name", EchoName, {"name": _TEXT, "text": _TEXT}, ReplyForm.LATER),
        declared("echo_hold", EchoHold, {"token": _TEXT}, ReplyForm.LATER),
        declared("echo_seal", EchoSeal, {"text": _TEXT}, ReplyForm.LATER),
        declared("echo_shout", EchoShout, {"text": _TEXT, "times": COUNT_FROM_1}, ReplyForm.LATER),
        declared("echo_keep", EchoKeep, {"name": _KEY, "text": _TEXT}, ReplyForm.LATER),
        declared("echo_rows", EchoRows, {"prefix": _KEY, "make_good": FLAG}, ReplyForm.LATER),
        declared("echo_note", EchoNote, {"name": _TEXT, "text": _TEXT, "once": FLAG, "effects": FLAG}, ReplyForm.LATER),
        declared("echo_list", EchoList, {"limit": whole_number(1000, 1), "after": _TEXT}, ReplyForm.LATER),
        declared("echo_notes", EchoNotes, form=ReplyForm.OPEN),
        declared("echo_watch", EchoWatch, form=ReplyForm.OPEN),
    ),
    _reply_fields,
    errors=(EchoMuteError,),
    hides=lambda key: key.startswith(SECRET),
    when_off="this node has no echo: set echo.length",
    logged=lambda request: "echo_name" if isinstance(request, EchoName) else "",
)
