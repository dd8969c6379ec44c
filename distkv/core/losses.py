"""Paths whose values the disk of this node lost, and that nothing has replaced.

Knows: which paths they are, as far as they can be read.  Does not know how a disk is damaged, nor how it is found.

Invariant: a path is among them from the start that found its row damaged until something stands there, or nothing is
missing any more: what is not here then is nowhere (docs/protocol, LIFE-13). What cannot be named ends so, too, or when
a person does without it.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import DamagedError
from distkv.model.invariant import must
from distkv.model.path import NAMES_MAX, Path, PathKey
from distkv.wire.hidden import is_hidden

SHOWN_MAX: Final = 3
"""So many are named in a message."""


class Losses:
    """Asked only about paths at which nothing stands, not even a deletion."""

    def __init__(self) -> None:
        self._paths: dict[PathKey, Path] = {}
        self.is_one_anywhere = False
        """Whether there is one whose path cannot be read, so that it may be any."""
        self.are_any = False
        """Whether there are some; kept, because each write asks."""

    def add(self, path: Path | None) -> None:
        """What a path held is lost; None: nobody knows which."""
        if path is None:
            self.is_one_anywhere = True
        else:
            self._paths[path.key] = path
        self.are_any = True

    def found(self, path: Path) -> None:
        """Something stands there."""
        self._paths.pop(path.key, None)
        self.are_any = self.is_one_anywhere or bool(self._paths)

    def forget(self) -> None:
        """Nothing is lost any more."""
        self._paths.clear()
        self.is_one_anywhere = self.are_any = False

    def drop_nameless(self) -> None:
        """A person does without what cannot be named."""
        self.is_one_anywhere = False

    def has(self, path: Path | None) -> bool:
        """Whether it is lost; None: what cannot be named."""
        return self.is_one_anywhere if path is None else path.key in self._paths

    def may_hold(self, path: Path) -> bool:
        """Whether something may be lost at a path."""
        return self.is_one_anywhere or path.key in self._paths

    def below(self, top: Path, min_depth: int = 0, max_depth: int = NAMES_MAX) -> list[Path]:
        """Those at and below a path that can be named; the system's own only when `top` is one of them, and
        none that is hidden."""
        return [
            path
            for path in sorted(self._paths.values(), key=str)
            if path.key[: len(top)] == top.key
            and min_depth <= len(path) - len(top) <= max_depth
            and (not path.is_reserved or (top.is_reserved and not is_hidden(path)))
        ]

    def refuse(self, path: Path) -> None:
        """
        Raises:
            DamagedError: nobody can say here that the path has no value.
        """
        if path.key in self._paths:
            raise DamagedError(f"the value of {path} is lost here, the disk damaged it: {_AFTER}")
        if self.is_one_anywhere:
            raise DamagedError(
                f"{path} has no value here, but the disk damaged one whose path cannot be read: {_AFTER_NAMELESS}"
            )

    def lack_below(self, top: Path, min_depth: int = 0, max_depth: int = NAMES_MAX) -> DamagedError | None:
        """What to say when of the values at and below a path some may be missing here."""
        lost = self.below(top, min_depth, max_depth)
        if lost:
            more = f" and {len(lost) - SHOWN_MAX} more" if len(lost) > SHOWN_MAX else ""
            named = ", ".join(map(str, lost[:SHOWN_MAX])) + more
            return DamagedError(f"not all is here, the disk damaged what these held: {named}: {_AFTER}")
        if self.is_one_anywhere:
            return DamagedError(
                f"perhaps not all is here, the disk damaged a value whose path cannot be read: {_AFTER_NAMELESS}"
            )
        return None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.are_any == (self.is_one_anywhere or bool(self._paths)), "it is known whether there are some")


_AFTER: Final = "ask another node, or set it again"
_AFTER_NAMELESS: Final = "ask another node, or do without it (distkv client scrub --drop)"
