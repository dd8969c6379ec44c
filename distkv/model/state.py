"""How far a node is.

Knows: the states.  Does not know what leads from one to another (core).

Invariant: the text of a state is what messages and clients are told.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """How far a node is (docs/protocol, START-1)."""

    PASSIVE = "passive"
    DOWNLOADING = "downloading"
    RECOVERING = "recovering"
    READY = "ready"
    CUT_OFF = "cut-off"

    @property
    def is_serving(self) -> bool:
        """Whether a node in this state serves clients."""
        return self in (State.READY, State.CUT_OFF)
