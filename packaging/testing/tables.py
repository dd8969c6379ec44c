"""Tables as reStructuredText has them, and people can read them.

Knows: how wide a column is.  Does not know what stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Its lines."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    yield rule
    yield _row(head, widths)
    yield rule
    yield from (_row(row, widths) for row in rows)
    yield rule


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
