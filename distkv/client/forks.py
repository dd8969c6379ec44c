"""What a forked process leaves to its parent, such as the connections of its clients.

Knows: who wants to be told of a fork.  Does not know what they do then.

Invariant: when the child runs its first line of Python, each of them was told. A child that used a connection of its
parent would get the parent's answers, and the parent its own.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Parental(Protocol):
    """Something that belongs to the process that made it."""

    def leave_to_parent(self) -> None:
        """In a child: forget it, without a word to anybody outside, and what no thread of the child will ever end."""


_there: Final = WeakSet[Parental]()


def tell_child(one: Parental) -> None:
    """From now on, for as long as it exists."""
    _there.add(one)


def _tell_all() -> None:
    for one in list(_there):
        one.leave_to_parent()


os.register_at_fork(after_in_child=_tell_all)
