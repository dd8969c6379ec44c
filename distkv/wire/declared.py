"""Bodies by declaration: what nodes tell each other and what slots hold is read, written and checked from its fields.

Knows: msgspec, and is the one module that meets it (docs/architecture, *Declared bodies*).  Does not know any body.

Invariant: whatever the bytes, a reader returns a value of the declared form within the declared bounds, or raises one
`DecodeError` that names the field.  Nothing is allocated for what a header merely declares: a bound of a list or map is
compared with its header, and what is not declared is skipped.

A class below `Declared` is a map of its fields, or with `array_like=True` a list of them in their order; with `tag` a
field, or the first element, says which class of a union it is.  An unknown field is skipped.  A new field is one line
with a default, at the end.  What no field by itself can say stands in `__post_init__`, which raises `ValueError`; it
holds for values that are made here, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar, dataclass_transform

import msgspec
from msgspec import Meta as Bounds
from msgspec import Raw, field
from msgspec.structs import astuple
from msgspec.structs import replace as evolve

from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.wire.fields import HASH_BYTES

__all__ = [
    "BodyReader", "Bounds", "Declared", "Hash", "Node", "Raw", "Time",
    "evolve", "field", "fields_of", "pack", "pack_sorted",
]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Declared(msgspec.Struct, frozen=True):
    """Something that is said or kept. A value: it never changes, and equals another one of its class and content."""

    @classmethod
    def is_map(cls) -> bool:
        """Whether it is written as a map, not as a list."""
        return not cls.__struct_config__.array_like


Node: TypeAlias = Annotated[NodeName, Bounds(pattern=r"\A[0-9A-Za-z._-]{1,63}\Z")]
Hash: TypeAlias = Annotated[bytes, Bounds(min_length=HASH_BYTES, max_length=HASH_BYTES)]
_LARGEST: Final = float.fromhex("0x1.fffffffffffffp+1023")
Time: TypeAlias = Annotated[float, Bounds(ge=-_LARGEST, le=_LARGEST)]
"""Seconds, finite."""

pack: Final[Callable[[object], bytes]] = msgspec.msgpack.Encoder().encode
"""A body, or builtin values with bodies in them, as bytes; safe in any thread. Sets must go to `pack_sorted`."""

pack_sorted: Final[Callable[[object], bytes]] = msgspec.msgpack.Encoder(order="deterministic").encode
"""The same, with sets and maps in the order of what is in them."""



def fields_of(body: Declared) -> dict[str, object]:
    """What a map has, by the names that are written: to be part of a larger map."""
    return dict(zip(body.__struct_encode_fields__, astuple(body), strict=True))


_FAILURES: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading raises: bad format, kinds, bounds; text that is not UTF-8; something that is nested too deeply."""
_SHOWN_CHARS: Final = 160
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")


class BodyReader(Generic[T]):
    """Reads bodies of one form.

    Args:
        form: a class below `Declared`, a union of such with tags, or any builtin kind with bounds.
        name: what the whole is called in errors: 'vote', say.
    """

    __slots__ = ("_decode", "_form", "_name")

    def __init__(self, form: Any, name: str) -> None:
        self._form: Final = form
        self._name: Final = name
        self._decode: Final[Callable[[bytes | Raw], T]] = msgspec.msgpack.Decoder(form).decode

    def read(self, data: bytes | Raw) -> T:
        """What the bytes say.

        Raises:
            DecodeError: they are not exactly one object of this form.
        """
        try:
            return self._decode(data)
        except _FAILURES as error:
            raise _refusal(error, self._name) from None

    def convert(self, value: object) -> T:
        """The same of what was unpacked already, as a part of a larger frame.

        Raises:
            DecodeError: it has another form.
        """
        try:
            return msgspec.convert(value, self._form, builtin_types=(bytes,))  # type: ignore[no-any-return]
        except _FAILURES as error:
            raise _refusal(error, self._name) from None


def _refusal(error: Exception, name: str) -> DecodeError:
    """The error with the field's name. What a stranger sent is shown in part."""
    if not isinstance(error, msgspec.ValidationError):
        if isinstance(error, RecursionError):
            return DecodeError(f"'{name}' is nested too deeply", f"bad_{name}")
        return DecodeError(f"'{name}' is broken msgpack: {error}", "not_msgpack")
    what, _, path = str(error).rpartition(" - at `")
    if not what:
        what, path = path, "$"
    place = path.removeprefix("key` in `").rstrip("`").removeprefix("$")
    missing = _MISSING.fullmatch(what)
    if missing:
        place, what = f"{place}.{missing[1]}", "it is missing"
    where = place.removeprefix(".") if place.startswith(".") else f"{name}{place}"
    what = what[:_SHOWN_CHARS] if what.isprintable() else ascii(what)[:_SHOWN_CHARS]
    return DecodeError(f"the field '{where}': {what}", f"bad_{re.split('[.[]', where)[0]}")
