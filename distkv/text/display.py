"""Values and messages as people are shown them where no form was asked for: scalars bare, all else as YAML or JSON.

Knows: how a value becomes text.  Does not know where it is printed, nor the forms that a program may ask for.

Invariant: `word`, `one_line` and `table` give whole lines, whatever is in the value or the message. JSON and YAML have
no mark that cannot be seen, and mean the same value all the same; a text that is printed bare has all that is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.wire.json_form import to_json

CELL_CHARS_MAX: Final = 256
"""No name is longer; a longer one is somebody's nonsense, and would push all other rows of a table apart."""


def text_of(value: object) -> str:
    """Scalars bare, the rest YAML without the newline at its end."""
    match value:
        case str():
            return value
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case int() | float():
            return repr(value)
    return document(value).rstrip("\n")


def document(value: object) -> str:
    """The value as YAML."""
    from distkv.text import yaml  # takes longer to load than all the rest

    return yaml.dump(value)


def json_line(value: object) -> str:
    """The value as JSON."""
    return visible_json(to_json(value))


def visible_json(text: str) -> str:
    """JSON in one line, in which what cannot be seen is escaped; it means the same."""
    return text if text.isprintable() else "".join(map(_in_json, text))


def word(value: object) -> str:
    """A value in one line, whatever it is: a scalar bare; what would take several lines, or cannot be seen, as JSON."""
    if isinstance(value, str):
        return value if value.isprintable() else json_line(value)
    return text_of(value) if isinstance(value, int | float | None) else json_line(value)


def one_line(text: str) -> str:
    """What cannot be seen is escaped: a file or a server that is quoted must not steer the terminal."""
    return visible(" ".join(text.split()))


def visible(text: object) -> str:
    """The text of something, such as a path, in which what cannot be seen is escaped."""
    found = str(text)
    if found.isprintable():
        return found
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in found)


def table(rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines with columns of one width, without blanks at their ends. What cannot be seen is escaped; of a long cell the
    beginning is shown, except in the last column."""
    shown = [[*map(_cell, row[:-1]), visible(row[-1])] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in shown]


def _cell(value: object) -> str:
    found = visible(str(value)[: CELL_CHARS_MAX + 1])
    return found if len(found) <= CELL_CHARS_MAX else f"{found[: CELL_CHARS_MAX - 1]}…"


def _in_json(mark: str) -> str:
    """A mark within a text in JSON."""
    if mark.isprintable():
        return mark
    units = mark.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
