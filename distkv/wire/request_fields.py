"""Requests by declaration: each field of a request has a name and a kind, by which it is read, written and checked.

Knows: the kinds that several requests have, and how a row is made of fields.  Does not know any request, nor frames.

Invariant: what was written is read as the same request; what is wrong is said by the field's name, and by what would be
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
from distkv.wire.fields import Fields, read_address, read_flag, read_int, read_node, read_path, read_seconds
from distkv.wire.row import COUNT_MAX, WAIT_S_MAX, Asked, ReplyForm, RequestRow, When


@attrs.frozen
class FieldKind:
    """What one field may be."""

    read: Callable[[Any, str], object]
    """The attribute, of what came (None: nothing) and the name of the field, which it says when it raises."""
    write: Callable[[Any], object] | None = None
    """The field, of the attribute; None: it is the attribute."""
    of_fields: bool = False
    """Whether `read` is given all fields, not only the value of this one."""


@attrs.frozen
class FieldGroup:
    """What two fields are together, or one whose bytes are wanted."""

    attributes: Sequence[str]
    read: Callable[[Fields, bytes], Sequence[object]]
    """These attributes, of all fields and the frame."""
    write: Callable[[Any, dict[str, object], dict[str, bytes]], None] = lambda _, __, ___: None
    """Puts what the request has of them into fields; what is packed already, into the second of them."""
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
    places = {field.name: field for field in attrs.fields(cast("type[attrs.AttrsInstance]", asked))}
    left = [name for name in places if name != "seq"]
    parts: list[_DeclaredField] = []
    for name, kind in (fields or {}).items():
        names = (name,) if isinstance(name, str) else name
        attributes = kind.attributes if isinstance(kind, FieldGroup) else left[:1]
        left = [attribute for attribute in left if attribute not in attributes]
        place = [*places].index(attributes[0]) if attributes else 0
        default = places[attributes[0]].default if attributes else attrs.NOTHING
        parts.append(_DeclaredField(names, kind, place, attributes, default))
    if left:
        raise TypeError(f"{action}: no field is {left[0]}")
    return RequestRow(action, asked, _reader(asked, parts, places), _writer(parts), form, when)


@attrs.frozen
class _DeclaredField:
    names: Sequence[str]
    kind: FieldKind | FieldGroup
    place: int
    """Among the attributes, of the first of these."""
    attributes: Sequence[str]
    _default: Any

    @property
    def default(self) -> object:
        """Where nothing is said; `NOTHING`: it has to be."""
        if isinstance(self.kind, FieldGroup) and self.kind.is_needed:
            return attrs.NOTHING
        return self._default.factory() if hasattr(self._default, "factory") else self._default

    @property
    def is_needed(self) -> bool:
        return self.default is attrs.NOTHING


def _reader(
    asked: Callable[..., Asked], parts: Sequence[_DeclaredField], places: Mapping[str, attrs.Attribute[Any]]
) -> Callable[[int, Fields, bytes], Asked]:
    ones = [
        (part.names[0], part.place, part.kind.read, part.is_needed, part.kind.of_fields)
        for part in parts
        if isinstance(part.kind, FieldKind)
    ]
    several = [
        (part.names, slice(part.place, part.place + len(part.attributes)), part.kind.read, part.is_needed)
        for part in parts
        if isinstance(part.kind, FieldGroup)
    ]
    defaults: list[Any] = [place.default for place in places.values()]
    new = [(place, default.factory) for place, default in enumerate(defaults) if hasattr(default, "factory")]

    def read(seq: int, fields: Fields, frame: bytes) -> Asked:
        found = [*defaults]
        found[0] = seq
        for place, make in new:
            found[place] = make()
        for name, place, read_one, is_needed, of_fields in ones:
            if name in fields or is_needed:
                found[place] = read_one(fields if of_fields else fields.get(name), name)
        for names, part, read_some, is_needed in several:
            if is_needed or names[0] in fields or names[-1] in fields:
                found[part] = read_some(fields, frame)
        return asked(*found)

    return read


def _writer(parts: Sequence[_DeclaredField]) -> Callable[[Any, dict[str, object], dict[str, bytes]], None]:
    ones = [
        (part.names[0], part.attributes[0], part.kind.write, part.default)
        for part in parts
        if isinstance(part.kind, FieldKind)
    ]
    several = [
        (part.attributes[0] if part.attributes else "seq", part.kind.write, part.default)
        for part in parts
        if isinstance(part.kind, FieldGroup)
    ]

    def write(request: Any, fields: dict[str, object], raw: dict[str, bytes]) -> None:
        for name, attribute, write_one, default in ones:
            value = getattr(request, attribute)
            if value != default:
                fields[name] = value if write_one is None else write_one(value)
        for attribute, write_some, default in several:
            if getattr(request, attribute) != default:
                write_some(request, fields, raw)

    return write


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

    return FieldGroup((), read)


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
ADDRESS: Final = FieldKind(lambda fields, _: read_address(fields), of_fields=True)
PATH: Final = FieldKind(read_path_of, attrgetter("names"))
