"""Requests and messages by declaration: each field has a name and a kind, by which it is read, written and checked.

Knows: the kinds that several of them have, and how a row is made of fields.  Does not know any request, nor frames.

Invariant: what was written is read as the same value; what is wrong is said by the field's name, and by what would be
right. A field whose attribute has a default may be absent, and is not written when it says just that.

Bodies between nodes are declared with msgspec (`declared`). It is not used here, because a command has to start: it is
long to load, and what people are told about a request of theirs is said in their words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeAlias, cast

import attrs

from distkv.errors import BadPathError, RequestError
from distkv.model.event import TICK_MAX
from distkv.model.path import Path
from distkv.wire.fields import (
    Fields,
    range_map,
    read_address,
    read_flag,
    read_hash,
    read_int,
    read_node,
    read_path,
    read_ranges,
    read_seconds,
    read_state,
    read_ticks,
    tick_map,
)
from distkv.wire.row import COUNT_MAX, WAIT_S_MAX, Asked, ReplyForm, RequestRow, When, Write


@attrs.frozen
class FieldKind:
    """What one field may be."""

    read: Callable[[Any, str], object]
    """The attribute, of what came (None: nothing) and the name of the field, which it says when it raises."""
    write: Callable[[Any], object] | None = None
    """The field, of the attribute; None: it is the attribute."""
    of_fields: bool = False
    """Whether `read` is given all fields, not only the value of this one."""
    count: Final = 1
    is_needed: Final = False


@attrs.frozen
class FieldGroup:
    """What two fields are together, or one whose bytes are wanted."""

    count: int
    """Of the attributes."""
    read: Callable[[Fields, bytes], Sequence[object]]
    """These attributes, of all fields and the frame."""
    write: Callable[[Sequence[Any], dict[str, object], dict[str, bytes]], None] = lambda _, __, ___: None
    """Puts the attributes into fields; what is packed already, into the second of them."""
    is_needed: bool = False
    """Whether it is always written and read, whatever the defaults of the attributes are."""


DeclaredFields: TypeAlias = Mapping[str | tuple[str, str], FieldKind | FieldGroup]
"""By their names, in the order of the attributes."""


def declared(
    action: str,
    asked: type[Asked],
    fields: DeclaredFields | None = None,
    form: ReplyForm = ReplyForm.SIMPLE,
    when: When = When.SERVING,
) -> RequestRow[Asked, Asked]:
    """The row of a request whose attributes, besides `seq`, are these fields."""
    return RequestRow(action, asked, *map_form(asked, fields or {}), form, when)


def map_form(
    asked: Callable[..., Asked], fields: DeclaredFields, given: int = 1
) -> tuple[Callable[[Any, Fields, bytes], Asked], Write[Asked]]:
    """How the attributes of a value are read from a map and put into one, all but the first ones, which are `given`:
    `read` takes the first of them, or, of several, a tuple of them."""
    places = attrs.fields(cast("type[attrs.AttrsInstance]", asked))
    defaults: list[Any] = [place.default for place in places]
    new = [(at, default.factory) for at, default in enumerate(defaults) if hasattr(default, "factory")]
    for at, make in new:
        defaults[at] = make()
    to_read, groups_to_read, to_write, groups_to_write = list[Any](), list[Any](), list[Any](), list[Any]()
    at = given
    for key, kind in fields.items():
        names = (key,) if isinstance(key, str) else key
        attributes = [place.name for place in places[at : at + kind.count]]
        default = defaults[at] if attributes and not kind.is_needed else attrs.NOTHING
        is_needed = default is attrs.NOTHING
        if isinstance(kind, FieldKind):
            to_read.append((names[0], at, kind.read, is_needed, kind.of_fields))
            to_write.append((names[0], attributes[0], kind.write, default))
        else:
            groups_to_read.append((names, slice(at, at + kind.count), kind.read, is_needed))
            groups_to_write.append((attributes, kind.write, default))
        at += kind.count
    if at != len(places):
        raise TypeError(f"{asked.__name__} has {len(places)} attributes, and {at} are declared")
    rest = defaults[given:]

    def read(first: Any, fields: Fields, frame: bytes) -> Asked:
        found = [first, *rest] if given == 1 else [*first, *rest]
        for at, make in new:
            found[at] = make()
        for name, at, read_one, is_needed, of_fields in to_read:
            if name in fields or is_needed:
                found[at] = read_one(fields if of_fields else fields.get(name), name)
        for names, part, read_some, is_needed in groups_to_read:
            if is_needed or names[0] in fields or names[-1] in fields:
                found[part] = read_some(fields, frame)
        return asked(*found)

    def write(request: Any, fields: dict[str, object], raw: dict[str, bytes]) -> None:
        for name, attribute, write_one, default in to_write:
            value = getattr(request, attribute)
            if value != default:
                fields[name] = value if write_one is None else write_one(value)
        for attributes, write_some, default in groups_to_write:
            if not attributes or getattr(request, attributes[0]) != default:
                write_some([getattr(request, attribute) for attribute in attributes], fields, raw)

    return read, write


# -- kinds that several requests have -----------------------------------------------------------------------------


def whole_number(high: int = TICK_MAX, low: int = 0) -> FieldKind:
    """An integer from `low` to `high`."""
    return FieldKind(partial(read_int, high=high, low=low), of_fields=True)


def seconds(high: float) -> FieldKind:
    """A duration, from 0 to `high` seconds."""
    return FieldKind(partial(read_seconds, high=high), of_fields=True)


def refused(name: str, why: str) -> FieldGroup:
    """A field that another request has, and that would be ignored."""

    def read(fields: Fields, _: bytes) -> tuple[()]:
        if name in fields:
            raise RequestError(f"the field '{name}' {why}")
        return ()

    return FieldGroup(0, read)


def read_path_of(value: object, name: str) -> Path:
    """As `fields.read_path`, of a field that may have another name."""
    try:
        return read_path(value)
    except BadPathError as error:
        raise error if name == "path" else BadPathError(f"the field '{name}': {error}") from None


FLAG: Final = FieldKind(read_flag, of_fields=True)
COUNT: Final = whole_number(COUNT_MAX)
COUNT_FROM_1: Final = whole_number(COUNT_MAX, 1)
WAIT: Final = seconds(WAIT_S_MAX)
NODE: Final = FieldKind(read_node)
HASH: Final = FieldKind(read_hash)
TICKS: Final = FieldKind(read_ticks, tick_map)
RANGES: Final = FieldKind(read_ranges, range_map)
STATE: Final = FieldKind(lambda fields, _: read_state(fields), attrgetter("value"), of_fields=True)
ADDRESS: Final = FieldKind(lambda fields, _: read_address(fields), of_fields=True)
PATH: Final = FieldKind(read_path_of, attrgetter("names"))
