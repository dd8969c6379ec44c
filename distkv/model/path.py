"""Paths: where an entry lives, as a tuple of names, and their text form.

Knows: which names there are, when two are the same, and how a path is written (docs: interfaces, 'Paths as text').
Does not know: what is stored there, nor how a path is packed for the wire.

Invariant: two paths are equal exactly when every name is the same *of the same type*.  Python holds `1 == True == 1.0`,
so equality and hash go by `key`, in which everything that is neither text nor bytes carries its type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, TypeAlias

from distkv.errors import BadPathError

Name: TypeAlias = str | bytes | int | float | bool | None
NameKey: TypeAlias = str | bytes | tuple[str, int | float | bool | None]
PathKey: TypeAlias = tuple[NameKey, ...]

NAMES_MAX: Final = 64
"""How many names a path may have (docs/protocol, PATH-1)."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_ESCAPES: Final = str.maketrans({".": ":.", ":": "::", " ": ":_"})
_PLAIN: Final = {".": ".", ":": ":", "_": " "}
_WORDS: Final[dict[str, Name]] = {"e": "", "t": True, "f": False, "n": None}


class Path:
    """An immutable path. `names` is what a user sees; `key` is what dictionaries use.

    Raises:
        BadPathError: a name of another type, a lone surrogate, a NaN, an integer beyond 64 bits, or more than
            `NAMES_MAX` names.
    """

    __slots__ = ("key", "names")

    names: tuple[Name, ...]
    key: PathKey

    def __init__(self, names: Iterable[Name] = ()) -> None:
        given = tuple(names)
        if len(given) > NAMES_MAX:
            raise BadPathError(f"a path has at most {NAMES_MAX} names, this one has {len(given)}")
        for name in given:
            if type(name) is not str:
                given = tuple(_clean(name) for name in given)
                self.names = given
                self.key = tuple(_name_key(name) for name in given)
                return
            if not name.isascii():
                _check_text(name)
        self.names = self.key = given  # type: ignore[assignment]  # all are str, their own key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Path.parse({str(self)!r})"

    def __str__(self) -> str:
        """The text form; `Path.parse(str(path)) == path` for every path."""
        if not self.names:
            return ":"
        return ".".join(_name_text(name) for name in self.names)

    @property
    def is_reserved(self) -> bool:
        """Whether the path belongs to the system: its first name is null."""
        return bool(self.names) and self.names[0] is None

    @classmethod
    def parse(cls, text: str) -> Path:
        """Read the text form.

        Raises:
            BadPathError: naming the element that cannot be read and what would be right.
        """
        if text == ":":
            return ROOT
        return cls(_parse_name(part, text) for part in _split(text))


def _clean(name: Name) -> Name:
    """Check one name; fold the spellings that are the same name."""
    kind = type(name)
    if kind is str:
        assert isinstance(name, str)
        _check_text(name)
        return name
    if name is None or kind is bool:
        return name
    if kind is bytes:
        return name or ""
    if kind is int:
        assert isinstance(name, int)
        if not _INT_MIN <= name <= _INT_MAX:
            raise BadPathError("an integer in a path needs more than 64 bits")
        return name
    if kind is float:
        assert isinstance(name, float)
        if math.isnan(name):
            raise BadPathError("NaN cannot be a name in a path: it equals nothing, not even itself")
        return name or 0.0  # -0.0 is 0.0
    raise BadPathError(f"a name in a path is text, bytes, a number, true, false or null, not {kind.__name__}")


def _check_text(name: str) -> None:
    """Refuse what the command line makes of bytes that are no text, before a packer or a digest meets it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadPathError(f"the name {name!r} in a path is not Unicode (a lone surrogate)") from None


def _name_key(name: Name) -> NameKey:
    if isinstance(name, str | bytes):
        return name
    return (type(name).__name__, name)


# -- text ---------------------------------------------------------------------------------------------------------


def _name_text(name: Name) -> str:
    if isinstance(name, str):
        return name.translate(_ESCAPES) if name else ":e"
    if isinstance(name, bytes):
        return ":y" + name.hex()
    if name is None:
        return ":n"
    if name is True:
        return ":t"
    if name is False:
        return ":f"
    # A float is written with every dot escaped, so that splitting at dots needs no look ahead.
    return ":" + repr(name).replace(".", ":.")


def _split(text: str) -> list[str]:
    """Cut at the dots that no colon escapes; the parts keep their escapes."""
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
    try:
        if word[:1] == "y":
            return bytes.fromhex(word[1:])
        if word[:1] == "x":
            return int(word[1:], 16)
        number = word.replace(":.", ".")
        if number.lstrip("+-").isdecimal():
            return int(number)
        return float(number)
    except ValueError:
        raise BadPathError(
            f"the path {text!r} has the element {part!r}: after ':' comes '.', ':', '_', 'e', 't', 'f', 'n', "
            "a number, 'x' with hex digits or 'y' with bytes in hex"
        ) from None


def _unescape(part: str, text: str) -> str:
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
