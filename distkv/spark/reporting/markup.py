"""Tables and text of a report, as HTML.

Knows: what may stand in a page, and how.  Does not know what a report says (`spark.reporting.page`).

Invariant: whatever a path or a name has in it is text in the page, of one line, that can be told apart from others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

import attrs

from distkv.spark.reporting.scale import counted

TEXT_MAX: Final = 240
"""Characters of a path or a name; the middle of a longer one is left out."""


@attrs.frozen
class Column:
    """One column of a table."""

    name: str
    css_class: str = ""
    """`n`: numbers, `w`: in one line, `p`: paths, `barred`: a bar."""


def text(words: str) -> str:
    """Words of somebody else, such as a path: what has no shape, or turns others around, is shown by its number."""
    shown = "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in words)
    if len(shown) > TEXT_MAX:
        shown = f"{shown[: TEXT_MAX // 2]} … {shown[-TEXT_MAX // 2 :]}"
    return escape(shown)


def path(words: str) -> str:
    """A path, or the name of a node."""
    return f'<span class="path">{text(words)}</span>'


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """A table whose rows are HTML, cell by cell, each headed by its first cell."""
    heads = "".join(map(_head, columns))
    body = "".join(f"<tr>{_row(columns, row)}</tr>\n" for row in rows)
    told = escape(caption)
    return (
        f'<figure>\n<figcaption>{told}</figcaption>\n<div class="wide" tabindex="0" role="region" aria-label="{told}">'
        f'<table aria-label="{told}">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'
        "</figure>\n"
    )


def of_all(caption: str, shown: int, of: int) -> str:
    """A caption; when only some are shown it says so."""
    return caption if shown == of else f"{caption}: {shown} of {counted(of)}"


def pairs(css_class: str, rows: Iterable[tuple[str, str]]) -> str:
    """Names, and HTML that says what each is."""
    return f'<dl class="{css_class}">{"".join(f"<div><dt>{escape(a)}</dt><dd>{b}</dd></div>" for a, b in rows)}</dl>\n'


def paragraph(words: str, css_class: str = "") -> str:
    """Words of ours, of which nothing was escaped yet."""
    return f"<p{_class(css_class)}>{escape(words)}</p>\n"


def _head(column: Column) -> str:
    # A bar says nothing that the number beside it does not say.
    return f'<th scope="col"{_classed(column)}>{escape(column.name)}</th>' if column.name else "<td></td>"


def _row(columns: Sequence[Column], cells: Sequence[str]) -> str:
    first, *others = zip(columns, cells, strict=True)
    head = f'<th scope="row"{_classed(first[0])}>{first[1]}</th>'
    return head + "".join(f"<td{_classed(column)}>{cell}</td>" for column, cell in others)


def _classed(column: Column) -> str:
    return _class(column.css_class)


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
