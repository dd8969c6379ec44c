"""How far a number may be above what is known, when somebody else says it.

Knows: the longest step, and how often a number beyond it was said.  Does not know what the numbers are.

Invariant: one message raises a number by one step at the most, so none uses it up. A number that is further away and
true is taken in the end: each time that it is said, the limit is one step higher (docs/protocol, JUMP-2).
"""

from __future__ import annotations

from typing import Final

from distkv.model.invariant import must

JUMP: Final = 1 << 32
"""As that of tocks. It takes 2^30 messages to use up a number of 62 bits."""


class JumpLimit:
    """Of one kind of number."""

    def __init__(self, jump: int = JUMP) -> None:
        self._jump: Final = jump
        self._floor = 0

    def take(self, number: int, known: int) -> bool:
        """Whether a number is near enough to the one that is known. One that is not raises the limit by a step."""
        limit = max(known, self._floor) + self._jump
        if number > limit:
            self._floor = limit
        return number <= limit

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._floor == 0 or self._floor >= self._jump, "the limit is raised by whole steps")
