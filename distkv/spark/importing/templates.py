"""Where the rows of an import go: a path in which columns stand for names.

Knows: how TEMPLATE is written, and which values of a column are a name.  Does not know files.

Invariant: what a column says is part of one name, whatever is in it: a dot in it divides nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from distkv.errors import BadPathError, SettingsError
from distkv.model.path import Name, Path

_HOLE: Final = re.compile(r"\{([^{}]+)\}")
_MARK: Final = "\0"
"""Stands for a column while the rest of TEMPLATE is read as a path."""

_Part: TypeAlias = Name | tuple[str, ...]
"""A name as it is; or texts and columns in turn, of which one name is made."""


@attrs.frozen
class Template:
    """What TEMPLATE says."""

    text: str
    parts: tuple[_Part, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names, each once."""
        return tuple(dict.fromkeys(name for part in self.parts if isinstance(part, tuple) for name in part[1::2]))

    def path(self, cells: Mapping[str, object]) -> Path:
        """The path of a row.

        Raises:
            BadPathError: a column is missing, null or empty, or what it holds is no name.
        """
        return Path([_filled(part, cells) if isinstance(part, tuple) else part for part in self.parts])


def read_template(text: str) -> Template:
    """TEMPLATE, such as `site.{room}.{sensor}`: a path as text, in which `{column}` stands for what a column says.

    Raises:
        SettingsError: it is none, names no column, or leads to the system's own paths.
    """
    columns = _HOLE.findall(text)
    rest = _HOLE.sub(_MARK, text)
    if _MARK in text or "{" in rest or "}" in rest:
        raise SettingsError(f"--to is {text!r}: a column is written {{name}}, and no other brace may stand there")
    if not columns:
        raise SettingsError(f"--to is {text!r}: all rows would have one path; name a column, as in site.{{room}}")
    try:
        names = Path.parse(rest).names
    except BadPathError as error:
        raise SettingsError(f"--to is {text!r}: {error}") from None
    if names and names[0] is None:
        raise SettingsError(f"--to is {text!r}, which belongs to the system: it cannot be written")
    left = iter(columns)
    return Template(text, tuple(_part(name, left) for name in names))


# -- inside -------------------------------------------------------------------------------------------------------


def _part(name: Name, columns: Iterator[str]) -> _Part:
    if not isinstance(name, str) or _MARK not in name:
        return name
    texts = name.split(_MARK)
    found = [texts[0]]
    for text in texts[1:]:
        found += [next(columns), text]
    return tuple(found)


def _filled(part: tuple[str, ...], cells: Mapping[str, object]) -> str:
    return "".join(_name(text, cells) if number % 2 else text for number, text in enumerate(part))


def _name(column: str, cells: Mapping[str, object]) -> str:
    """What a column says, as a name or a part of one."""
    found = cells.get(column)
    if type(found) is str:
        if not found:
            raise BadPathError(f"the column {column} is empty, and a name is made of it")
        return found
    if found is None:
        what = "null" if column in cells else "missing"
        raise BadPathError(f"the column {column} is {what}, and a name is made of it")
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, int) or (isinstance(found, float) and math.isfinite(found)):
        return repr(found)
    raise BadPathError(f"the column {column} holds no text and no number, and a name is made of it")
