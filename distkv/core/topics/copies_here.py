"""What a node's copies of topics say to whoever decides who owns a topic.

Knows: the form of these questions.  Does not know how they are answered (`local_copies`), nor what an entry says.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class CopiesHere(Protocol):
    """What this node has of topics."""

    def has(self, name: str, ids: Collection[str]) -> bool:
        """Whether there is a copy of a topic with one of these ids."""

    def has_all(self, name: str, ids: Collection[str]) -> bool:
        """Whether there is one, and the disk has lost nothing of it."""

    def whole(self, name: str) -> int | None:
        """By which naming it has all that the owner has whom this node follows; None: by none."""

    def had(self, name: str) -> Collection[int]:
        """By which namings it ever had all that was answered."""
