"""What a token server is, in the eyes of all.

Knows: the words.  Does not know who decides (core.tokens.agreement), nor what each is allowed (core.tokens.serving).

Invariant: the words are what nodes tell each other and disks keep; one never changes its meaning.
"""

from __future__ import annotations

from enum import StrEnum


class ServerStanding(StrEnum):
    """What a token server is, in the eyes of all (docs/tokens)."""

    DOWN = "down"
    """It is responsible for nothing."""
    BOOTING = "booting"
    """It is responsible for its part, and collects what is in it."""
    READY = "ready"
    """It serves."""
    LEAVING = "leaving"
    """It is responsible for nothing any more, and hands over what it has."""
