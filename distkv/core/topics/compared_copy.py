"""A copy of a topic as comparing sees it: digests, and rows in pages.

Knows: how much goes in a page.  Does not know what a row means.

Invariant: a page has at least one row, if there is one, and no more than `PAGE_BYTES` beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Protocol, TypeAlias

import attrs

from distkv.core.topics.copy_stream import size_of
from distkv.wire.topic_messages import CopiedRow

PAGE_BYTES: Final = 100 << 10

SentRows: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Keys and values, in the order in which they came to be; one key may be there more than once."""


class ComparedCopy(Protocol):
    """One node's copy of a topic."""

    @property
    def ids(self) -> AbstractSet[str]:
        """By which it is known."""

    @property
    def digest(self) -> bytes:
        """Two copies that mean the same have the same."""

    def buckets(self) -> Sequence[bytes]:
        """The digests of its parts."""

    def rows_of(self, bucket: int, after: str = "") -> Iterator[tuple[str, bytes]]:
        """The rows of a part behind one of them, in the order in which another copy can take them."""


@attrs.frozen(slots=True)
class NoCopy:
    """That of a node that has nothing of a topic, and is to say so."""

    ids: frozenset[str]
    """Of the entry."""
    digest: bytes = b""

    def buckets(self) -> Sequence[bytes]:
        return ()

    def rows_of(self, bucket: int, after: str = "") -> Iterator[tuple[str, bytes]]:  # noqa: ARG002  # there is none
        return iter(())


def page_of(copy: ComparedCopy, bucket: int, after: str) -> tuple[tuple[CopiedRow, ...], bool]:
    """The next rows of a part, and whether there are further ones."""
    rows, size = list[CopiedRow](), 0
    for key, value in copy.rows_of(bucket, after):
        size += size_of(key, value)
        if rows and size > PAGE_BYTES:
            return tuple(rows), True
        rows.append(CopiedRow(key, value))
    return tuple(rows), False


def pairs_of(rows: Sequence[CopiedRow]) -> SentRows:
    """What a page has."""
    return [(row.key, row.value) for row in rows]
