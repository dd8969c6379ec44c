"""What a machine says of itself that must hold at any moment, as code that tests run.

Knows: how it is said that it does not hold.  Does not know any machine.

Invariant: a method `check` changes nothing, and no server calls one: it may look at everything.
"""

from __future__ import annotations


class BrokenInvariantError(Exception):
    """What the docstring of a machine promises does not hold."""


def must(holds: bool, what: str) -> None:
    """
    Raises:
        BrokenInvariantError: it does not hold; `what` does.
    """
    if not holds:
        raise BrokenInvariantError(f"it does not hold that {what}")
