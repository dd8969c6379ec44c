"""Texts in order, in pieces that are short enough to change.

Knows: the order.  Does not know what stands under a text.

Invariant: each text is there once, no piece is empty, and none is longer than `PIECE_MAX`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from distkv.model.invariant import must

PIECE_MAX: Final = 512


class SortedKeys:
    """A set of texts that is read in order."""

    def __init__(self) -> None:
        self._pieces: Final = list[list[str]]()
        self._firsts: Final = list[str]()
        """The first text of each piece."""

    def add(self, key: str) -> None:
        """Add a text that is not there."""
        pieces, firsts = self._pieces, self._firsts
        if not pieces:
            pieces.append([key])
            firsts.append(key)
            return
        at = max(bisect_right(firsts, key) - 1, 0)
        piece = pieces[at]
        if key > piece[-1]:  # what comes in order fills pieces
            if len(piece) == PIECE_MAX and at == len(pieces) - 1:
                pieces.append([key])
                firsts.append(key)
                return
            piece.append(key)
        else:
            insort(piece, key)
            firsts[at] = piece[0]
        if len(piece) > PIECE_MAX:
            half = len(piece) // 2
            pieces.insert(at + 1, piece[half:])
            firsts.insert(at + 1, piece[half])
            del piece[half:]

    def remove(self, key: str) -> None:
        """Remove a text that is there."""
        at = bisect_right(self._firsts, key) - 1
        piece = self._pieces[at]
        del piece[bisect_left(piece, key)]
        if piece:
            self._firsts[at] = piece[0]
        else:
            del self._pieces[at], self._firsts[at]

    def begin(self, first: str = "") -> Iterator[str]:
        """Those from `first` on, in order; the set must not change meanwhile."""
        at = max(bisect_right(self._firsts, first) - 1, 0)
        for number, piece in enumerate(self._pieces[at:]):
            yield from piece[bisect_left(piece, first) :] if number == 0 else piece

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        all_keys = [*self.begin()]
        must(all(low < high for low, high in pairwise(all_keys)), "all are in order, each once")
        must(all(0 < len(piece) <= PIECE_MAX for piece in self._pieces), "no piece is empty, or too long")
        must(self._firsts == [piece[0] for piece in self._pieces], "the first of each piece is known")
