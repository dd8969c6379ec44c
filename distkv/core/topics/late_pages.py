"""What an owner has forgotten since it was asked for a page of rows.

Knows: the keys of the rows that went.  Does not know what a row means, nor how either came.

For example, an owner answers with a page that has a message, and then forgets the message. That it went may come first.
The page does not bring the message back.

Invariant: there are at most `KEYS_MAX` keys; when more rows went, no page counts until the next one is asked for.
"""

from __future__ import annotations

from typing import Final

from distkv.core.topics.compared_copy import SentRows
from distkv.model.invariant import must

KEYS_MAX: Final = 1 << 15


class GoneRows:
    """Those of one copy."""

    def __init__(self) -> None:
        self._keys: Final = set[str]()
        self.is_over = False
        """Whether more went than are known."""

    def ask(self) -> None:
        """A page is asked for: what has come before is older than it."""
        self._keys.clear()
        self.is_over = False

    def see(self, rows: SentRows) -> None:
        """The owner sent these, in their order; None: it is not there any more."""
        for key, value in rows:
            if value is not None:
                self._keys.discard(key)
            elif len(self._keys) < KEYS_MAX:
                self._keys.add(key)
            else:
                self.is_over = True

    def rest(self, page: SentRows) -> SentRows:
        """What of a page counts: what came back after it went is sent again by the owner."""
        return [(key, value) for key, value in page if key not in self._keys]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._keys) <= KEYS_MAX, "few rows that went are known")
