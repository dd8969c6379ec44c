"""Paths: where an entry lives, as a tuple of names, and their text form.

Knows: which names there are, when two are the same, and how a path is written (docs: interfaces, 'Paths as text').
Does not know: what is stored there, nor how a path is packed for the wire.

Invariant: two paths are equal exactly when every name is the same *of the same type*.  Python holds `1 == True == 1.0`,
so a path is kept as a tuple in which everything that is neither text nor bytes carries its type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self, TypeAlias

from distkv.errors import BadPathError

Name: TypeAlias = str | bytes | int | float | bool | None
NameKey: TypeAlias = str | bytes | tuple[str, int | float | bool | None]
PathKey: TypeAlias = tuple[NameKey, ...]

NAMES_MAX: Final = 64
"""How many names a path may have (docs/protocol, PATH-1)."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_PLAIN: Final = {".": ".", ":": ":", "_": " "}
_new_tuple: Final = tuple.__new__
_NULL: Final[NameKey] = ("NoneType", None)
_FALSE: Final[NameKey] = ("bool", False)
_TRUE: Final[NameKey] = ("bool", True)
_HEX: Final = re.compile("x[0-9a-fA-F]+")
_BYTES: Final = re.compile("y([0-9a-fA-F]{2})*")
_WORDS: Final[dict[str, Name]] = {"e": "", "t": True, "f": False, "n": None}
_NO_NAMES: Final = (str, bytes, bytearray, dict, set, frozenset)
"""What can be iterated, but does not give names in an order that was meant."""


class Path(tuple[Name, ...]):
    """An immutable path: a tuple of its names, for whoever iterates, slices or unpacks it. As a whole it is compared
    and hashed by its `key`.

    It is a tuple because there may be a million of them: an object around one would take twice the memory.

    Raises:
        BadPathError: text, whose letters would be taken for names (`parse` reads it); a name of another type, a lone
            surrogate, a NaN, an integer beyond 64 bits, or more than `NAMES_MAX` names.
    """

    __slots__ = ()

    may_be_reserved: ClassVar[bool] = False
    """Whether `is_reserved` may hold, for who cannot afford to call that."""

    def __new__(cls, names: Iterable[Name] = ()) -> Path:
        kind = type(names)
        if kind is not list and kind is not tuple and isinstance(names, _NO_NAMES):
            raise BadPathError(_no_names(names))
        try:
            given = _new_tuple(Path, names)
        except TypeError:
            if isinstance(names, Iterable):
                raise
            raise BadPathError(_no_names(names)) from None
        try:
            if "".join(given).isascii() and len(given) <= NAMES_MAX:  # type: ignore[arg-type]  # or it raises
                return given  # nearly always all names are text, and their own key
        except TypeError:
            pass
        return cls.of_mixed(given)

    @property
    def names(self) -> tuple[Name, ...]:
        """The names as they are."""
        return self

    @property
    def key(self) -> PathKey:
        """The path as a tuple in which different names differ."""
        return self  # type: ignore[return-value]  # text and bytes are their own key

    @classmethod
    def of_ascii(cls, names: list[str]) -> Path:
        """The path of at most `NAMES_MAX` names which are known to be ASCII text: not checked again, so faster."""
        return _new_tuple(Path, names)

    @classmethod
    def of_mixed(cls, names: Sequence[object]) -> Path:
        """The same path as by `Path(names)`, which looks first whether all are text: faster where they are not."""
        if len(names) > NAMES_MAX:
            raise BadPathError(f"a path has at most {NAMES_MAX} names, this one has {len(names)}")
        keys = [*map(_name_key, names)]
        return _new_tuple(_TypedPath if tuple in map(type, keys) else Path, keys)  # text and bytes are their own key

    def __reduce__(self) -> tuple[type[Path], tuple[tuple[Name, ...]]]:
        """Pickled as its names; those of a plain path would be the path itself, for ever."""
        return Path, (tuple(self.names),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return f"Path.parse({str(self)!r})"

    def __str__(self) -> str:
        """The text form; `Path.parse(str(path)) == path` for every path."""
        if not self:
            return ":"
        for key in self:
            if not key or type(key) is not str:  # to see it is cheaper than to fail at it
                break
        else:
            # Each set makes this text, for the digest, and nearly always no name needs an escape.
            text = ".".join(self)  # type: ignore[arg-type]  # all are text
            if not (":" in text or " " in text or text.count(".") >= len(self)):
                return text
        return ".".join(map(_key_text, self.key))

    @property
    def is_reserved(self) -> bool:
        """Whether the path belongs to the system: its first name is null."""
        return False

    @classmethod
    def parse(cls, text: str) -> Path:
        """Read the text form.

        Raises:
            BadPathError: naming the element that cannot be read and what would be right.
        """
        if not isinstance(text, str):
            raise BadPathError(f"a path is written as text, such as 'sensors.kitchen', not as {type(text).__name__}")
        if text == ":":
            return ROOT
        if ":" not in text and text.isascii():
            names = text.split(".")
            if "" not in names and len(names) <= NAMES_MAX:
                return cls.of_ascii(names)  # nearly always; the rest is for names that need a closer look
        return cls(_parse_name(part, text) for part in split_text(text))


class _TypedPath(Path):
    """A path with names that are neither text nor bytes. The tuple below has keys in their places."""

    __slots__ = ()

    may_be_reserved = True

    @property
    def names(self) -> tuple[Name, ...]:
        return tuple([key[1] if type(key) is tuple else key for key in _keys(self)])

    @property
    def key(self) -> PathKey:
        found: PathKey = _keys_at(self, _ALL)
        return found

    @property
    def is_reserved(self) -> bool:
        return bool(_keys_at(self, 0) == _NULL)

    def __iter__(self) -> Iterator[Name]:
        return iter(self.names)

    def __reversed__(self) -> Iterator[Name]:
        return reversed(self.names)

    def __getitem__(self, at: Any) -> Any:
        return self.names[at]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __add__(self, more: Any) -> Any:
        return self.names + tuple(more)

    def __radd__(self, more: Any) -> Any:
        return tuple(more) + self.names

    def __mul__(self, times: Any) -> Any:
        return self.names * times

    __rmul__ = __mul__

    def count(self, name: object) -> int:
        return self.names.count(name)

    def index(self, name: object, *bounds: Any) -> int:
        return self.names.index(name, *bounds)

    def __str__(self) -> str:
        return ".".join(map(_key_text, _keys(self)))


_keys: Final[Any] = tuple.__iter__
_keys_at: Final[Any] = tuple.__getitem__
_ALL: Final = slice(None)


def _no_names(given: object) -> str:
    """What to say of what is no row of names."""
    if isinstance(given, str):
        return f"a path is made of names, not of text: write Path.parse({given!r}), or Path([{given!r}]) for one name"
    return f"a path is made of names, such as Path(['sensors', 7]), not of {type(given).__name__}"


def _name_key(name: object) -> NameKey:
    """Check one name, and make its key; the spellings of one name have one key."""
    if type(name) is str:
        return name if name.isascii() else _checked_text(name)
    if type(name) is int:
        if not _INT_MIN <= name <= _INT_MAX:
            raise BadPathError("an integer in a path needs more than 64 bits")
        return "int", name
    if type(name) is float:
        if math.isnan(name):
            raise BadPathError("NaN cannot be a name in a path: it equals nothing, not even itself")
        return "float", name or 0.0  # -0.0 is 0.0
    if type(name) is bytes:
        return name or ""
    if name is None:
        return _NULL
    if type(name) is bool:
        return _TRUE if name else _FALSE
    kind = type(name).__name__
    raise BadPathError(f"a name in a path is text, bytes, a number, true, false or null, not {kind}")


def _checked_text(name: str) -> str:
    """Refuse what the command line makes of bytes that are no text, before a packer or a digest meets it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadPathError(f"the name {name!r} in a path is not Unicode (a lone surrogate)") from None
    return name


def name_of(key: NameKey) -> Name:
    """The name that has this key in a path."""
    return key[1] if isinstance(key, tuple) else key


# -- text ---------------------------------------------------------------------------------------------------------


def _key_text(key: NameKey) -> str:
    if isinstance(key, str):
        return key.replace(":", "::").replace(".", ":.").replace(" ", ":_") or ":e"
    if isinstance(key, bytes):
        return ":y" + key.hex()
    name = key[1]
    if type(name) is int:
        return f":{name}"
    if name is None:
        return ":n"
    if type(name) is bool:
        return ":t" if name else ":f"
    # A float is written with every dot escaped, so that splitting at dots needs no look ahead.
    return f":{name!r}".replace(".", ":.")


def split_text(text: str) -> list[str]:
    """Cut at the dots that no colon escapes; the parts keep their escapes."""
    if ":" not in text:
        return text.split(".")
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] == ":":
            at += 2
            continue
        if text[at] == ".":
            parts.append(text[start:at])
            start = at + 1
        at += 1
    parts.append(text[start:])
    return parts


def _parse_name(part: str, text: str) -> Name:
    if not part:
        raise BadPathError(f"the path {text!r} has an empty element: write ':e' for an empty name, ':' for the root")
    if part[0] != ":" or part[1:2] in _PLAIN:
        return _unescape(part, text)
    word = part[1:]
    if word in _WORDS:
        return _WORDS[word]
    if _BYTES.fullmatch(word):
        return bytes.fromhex(word[1:])
    if _HEX.fullmatch(word):
        return int(word[1:], 16)
    number = _number(word.replace(":.", "."))
    if number is None:
        raise BadPathError(
            f"the path {text!r} has the element {part!r}: after ':' comes '.', ':', '_', 'e', 't', 'f', 'n', "
            "a number, 'x' with hex digits or 'y' with bytes in hex"
        )
    written = _key_text(_name_key(number))
    if written != part:
        advice = "this number is too large" if math.isinf(number) else f"write this number as {written!r}"
        raise BadPathError(f"the path {text!r} has the element {part!r}: {advice}")
    return number


def _number(text: str) -> int | float | None:
    """What Python would read, which is more than what it writes: 1_0, five in Arabic digits, a float beyond all."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def _unescape(part: str, text: str) -> str:
    if ":" not in part:
        return part
    out, at = [], 0
    while at < len(part):
        c = part[at]
        if c == ":":
            at += 1
            plain = _PLAIN.get(part[at : at + 1])
            if plain is None:
                wrong = part[at - 1 : at + 1]
                raise BadPathError(f"the path {text!r} has {wrong!r} inside an element: write '::' for ':'")
            c = plain
        out.append(c)
        at += 1
    return "".join(out)


ROOT: Final = Path()
RESERVED: Final = Path((None,))
"""What lies at and below it belongs to the system."""
