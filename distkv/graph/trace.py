"""What happened in a network, step by step, as plain values: the form of every trace.

Knows: what one step shows of a node, and how that is written into a file or a message and read back.
Does not know where it comes from (`recorder`), nor how it is drawn (`text` and its siblings).

Invariant: `Moment.from_dict(moment.to_dict()) == moment`; everything in a dictionary is of a type that JSON and msgpack
have.  Ticks, chains and ranges are text, `a:3`, `b:3 a:2` and `a:1-5,9 b:350.1`, so that a trace outlives changes of
what it was made of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, Self, TypeAlias

import attrs

from distkv.errors import DecodeError

Plain: TypeAlias = dict[str, object]
"""A dictionary of text, numbers, lists and dictionaries."""


EVENTS_SHOWN: Final = 8
"""Of so many events a moment shows path, value and fate; of all of them, the ticks."""


ENDED: Final = "ends"
"""The kind of the moment in which a node's process came to its end, from outside or by itself."""
OUT_OF_SIGHT: Final = "is out of sight"
"""The kind of the moment from which on nothing was heard of a node that was listened to."""
GONE: Final = frozenset({ENDED, OUT_OF_SIGHT})
"""After these nothing is known of a node, until it is seen again."""


class StepKind(StrEnum):
    """What made a node move, besides a gossip message, whose kinds are those of `wire.gossip`."""

    STARTED = "started"
    SEEN = "seen"
    """No step: the node as it was when one began to listen."""
    SET = "set"
    DELETE = "delete"
    BATCH = "batch"
    REQUEST = "request"
    """A client asked for something else."""
    OFFERED = "offered"
    """A peer asked for an exchange and sent its maps; ours are the answer."""
    JOINER = "joiner"
    """A node without data asked for a download."""
    MAPS = "maps"
    EVENTS = "events"
    KNOWN = "known"
    SNAPSHOT = "snapshot"
    PAGES = "pages"
    LINKED = "linked"
    """Something came, or ended, by the link to a node that is followed."""
    TOLD = "told"
    """A service of another node told the one here something."""
    DONE = "done"
    """A request to a peer is over; it failed when `about` says why."""
    UP = "up"
    DOWN = "down"
    GAP = "gap"
    """The transport lost something on the way to us."""
    ANNOUNCE = "announce"
    MEMBERS = "members"
    WAKE = "wake"


@attrs.frozen
class _Texts:
    """What has no fields but texts."""

    def to_dict(self) -> Plain:
        """What is empty is left out."""
        return _plain(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, object]) -> Self:
        """Raises DecodeError when it is not what `to_dict` makes."""
        return cls(**_texts(cls, found))


@attrs.frozen
class Said(_Texts):
    """One message, as its sender or its hearer sees it."""

    kind: str
    """A `GossipKind`; over TCP ask maps, ask events, ask snapshot, ask pages; maps, events, known, snapshot, pages,
    linked, done."""
    key: str
    """The same for one message on all nodes: `a@17` is what a said at tock 17; requests over TCP have `b#3@17`, that is
    b's third, asked at tock 17, and so have the answers that carry no tock (events, known, done)."""
    sender: str
    to: str = ""
    """Whom it is for; empty: all."""
    ask: str = ""
    """The request over TCP to which it belongs, as its asker calls it; empty on the side that answers."""
    ticks: str = ""
    """Of which ticks it speaks: events that it carries or wants, what is held, what is heard of."""
    chain: str = ""
    """A ping's chain, an info's reason, or the ping that an info answers."""
    about: str = ""
    """What else there is to say of it, for people: `initial` ping, info with a `reason`, why a request failed."""


@attrs.frozen
class EventShown(_Texts):
    """One event that arrived or was made, and what became of it."""

    tick: str
    path: str
    value: str | None = None
    """For people, and cut when long; None: deleted."""
    fate: str = ""
    """made, won, open loser, superseded, known (held before), refused."""


@attrs.frozen
class Moment:
    """What one step of a node shows, and the node as it is after it."""

    at_ms: int
    """Since the trace began."""
    node: str
    """Whose step; empty: it happened to all, as a split does."""
    kind: str
    """A `StepKind`, a `GossipKind`, or what happened to the node from outside, as `killed`."""
    heard: Said | None = None
    """The message that arrived."""
    sent: tuple[Said, ...] = ()
    events: tuple[EventShown, ...] = ()
    """What arrived and what was made, the first few."""
    ticks: str = ""
    """All of them."""
    closed: str = ""
    """Open losers that are none any more."""
    notes: tuple[str, ...] = ()
    """What the core noted: an id, and `name=value` for what belongs to it."""
    state: str = ""
    """Here and below: after the step."""
    tick: str = ""
    """The node's last own tick; empty: it has none."""
    tock: int = 0
    digest: str = ""
    """The state digest, 16 hex digits."""
    chain: str = ""
    """The ping chain that is the basis of the next round."""
    missing: str = ""
    """What is missing and not lost."""
    lost: str = ""

    def to_dict(self) -> Plain:
        """What is empty is left out."""
        return _plain(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, object]) -> Self:
        """Raises DecodeError when it is not what `to_dict` makes."""
        fields = dict(found)
        heard, sent = fields.pop("heard", None), _list(fields.pop("sent", []), "sent")
        events, notes = _list(fields.pop("events", []), "events"), _list(fields.pop("notes", []), "notes")
        at_ms, tock = _integer(fields.pop("at_ms", None), "at_ms"), _integer(fields.pop("tock", 0), "tock")
        return cls(
            at_ms=at_ms,
            tock=tock,
            heard=None if heard is None else Said.from_dict(_map(heard, "heard")),
            sent=tuple(Said.from_dict(_map(said, "sent")) for said in sent),
            events=tuple(EventShown.from_dict(_map(event, "events")) for event in events),
            notes=tuple(_text(note, "notes") for note in notes),
            **_texts(cls, fields, but=("at_ms", "tock", "heard", "sent", "events", "notes")),
        )


# -- files --------------------------------------------------------------------------------------------------------

LINE_CHARACTERS_MAX: Final = 1 << 20
INTEGER_MAX: Final = 2**63 - 1


def write_line(moment: Moment) -> str:
    """One line of a trace file, without its end."""
    return json.dumps(moment.to_dict(), ensure_ascii=False, separators=(",", ":"))


def read_lines(lines: Iterable[str], name: str) -> Iterator[Moment]:
    """A trace file, line by line; `name` is what it is called in errors.

    Raises:
        DecodeError: with the file, the line and what is wrong there.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            if len(line) > LINE_CHARACTERS_MAX:
                raise DecodeError(f"a line has at most {LINE_CHARACTERS_MAX} characters", "bad_trace")
            yield Moment.from_dict(_map(json.loads(line), "the line"))
        except (ValueError, RecursionError, DecodeError) as error:
            raise DecodeError(f"{name}, line {number} is no moment of a trace: {error}", "bad_trace") from None


# -- inside -------------------------------------------------------------------------------------------------------


def _plain(value: _Texts | Moment) -> Plain:
    found: Plain = {}
    for field in attrs.fields(type(value)):
        held = getattr(value, field.name)
        if field.default is attrs.NOTHING or held != field.default:
            found[field.name] = _plain_item(held)
    return found


def _plain_item(held: object) -> object:
    if isinstance(held, tuple):
        return [_plain_item(item) for item in held]
    if isinstance(held, _Texts):
        return held.to_dict()
    return held


def _texts(kind: type, found: Mapping[str, object], but: tuple[str, ...] = ()) -> dict[str, str]:
    """The fields of a class that are text; those that are unknown are ignored: a later release may have them."""
    texts: dict[str, str] = {}
    for field in attrs.fields(kind):
        if field.name in but:
            continue
        if field.name in found:
            texts[field.name] = _text(found[field.name], field.name)
        elif field.default is attrs.NOTHING:
            raise DecodeError(f"{field.name} is missing", "bad_trace")
    return texts


def _text(found: object, name: str) -> str:
    if not isinstance(found, str):
        raise DecodeError(f"{name} is text, not {type(found).__name__}", "bad_trace")
    return found


def _integer(found: object, name: str) -> int:
    if type(found) is not int:
        raise DecodeError(f"{name} is an integer, not {type(found).__name__}", "bad_trace")
    if abs(found) > INTEGER_MAX:
        raise DecodeError(f"{name} is an integer below 2^63", "bad_trace")
    return found


def _list(found: object, name: str) -> list[object] | tuple[object, ...]:
    if not isinstance(found, list | tuple):
        raise DecodeError(f"{name} is a list, not {type(found).__name__}", "bad_trace")
    return found


def _map(found: object, name: str) -> Mapping[str, object]:
    if not isinstance(found, dict):
        raise DecodeError(f"{name} is a map, not {type(found).__name__}", "bad_trace")
    return found
