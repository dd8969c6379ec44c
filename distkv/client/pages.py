"""A list that a node gives page by page, so that neither side has more of it in hand than it must.

Knows: how a list goes on behind the last page, and how many items are still wanted.  Does not know what is listed, nor
how questions travel.

Invariant: what is there all the time is listed once; without a limit all is, however many pages that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar

from distkv.client.arguments import check_count
from distkv.client.questions import Question, Repeat, question_of
from distkv.errors import DamagedError
from distkv.model.path import Path
from distkv.wire.fields import Fields
from distkv.wire.request import Request

Item = TypeVar("Item")

Page: TypeAlias = tuple[tuple[Item, ...], Path | None, str | None]
"""Some items; behind what the next page begins, or None: there is none; why these may not be all that are there."""


class Pages(Generic[Item]):
    """A list: ask `question`, `add` what it brings, until there is none."""

    def __init__(
        self,
        request: Callable[[int, Path | None, int | None], Request],
        read: Callable[[Fields], Page[Item]],
        *,
        limit: int | None,
        after: Path | None = None,
    ) -> None:
        """`request` is made of its `seq`, behind what it begins, and how many items are wanted still.

        Raises:
            RequestError: `limit` is no number.
        """
        check_count("limit", limit)
        self._request: Final = request
        self._read: Final = read
        self._limit: Final = limit
        self._after = after
        self._found: list[Item] = []
        self._lost: str | None = None
        self._is_whole = limit is not None and limit < 1

    @property
    def question(self) -> Question[Page[Item]] | None:
        """What to ask next; None at the end."""
        if self._is_whole:
            return None
        after, left = self._after, None if self._limit is None else self._limit - len(self._found)
        return question_of(lambda seq: self._request(seq, after, left), self._read, Repeat.ANYWHERE)

    def add(self, page: Page[Item]) -> None:
        """What the question brought."""
        items, self._after, lost = page
        self._found += items
        self._lost = lost or self._lost
        self._is_whole = self._after is None or (self._limit is not None and len(self._found) >= self._limit)

    def result(self) -> tuple[Item, ...]:
        """The items.

        Raises:
            DamagedError: a node knows that it lost some; `found` has the others.
        """
        found = tuple(self._found[: self._limit])
        if self._lost is None:
            return found
        error = DamagedError(self._lost)
        error.found = found
        raise error


def read_lost(reply: Fields) -> str | None:
    """Of a page: why its items may not be all that are there; None: they are."""
    return None if reply.get("lost") is None else str(reply["lost"])
