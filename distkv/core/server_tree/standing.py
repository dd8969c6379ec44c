"""How a node stands in the server tree.

Knows: the states and what moves a node from one to the next.  Does not know why: the machine tells it.

Invariant: a node takes children only as a root or attached, when it knows its whole way to the root (docs/protocol,
TREE-2).  The machine is the table `TRANSITIONS`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TreeStanding(StrEnum):
    """How a node stands."""

    OUT = "out"
    """It takes no part: it does not serve clients."""
    LOOKING = "looking"
    """It has no parent, and looks for one."""
    ROOT = "root"
    ATTACHED = "attached"
    PENDING = "pending"
    """It has a parent, and a node above looks for one."""


class StandingCause(StrEnum):
    """What moves a node."""

    SERVES = "serves clients"
    PARENT_TOOK_IT = "parent took it"
    NOBODY_FOUND = "nobody found"
    PARENT_DETACHED = "parent detached"
    """A node above lost its parent, or changes it."""
    PARENT_SETTLED = "parent settled"
    """The nodes above have their places again."""
    PARENT_LOST = "parent lost"
    """The connection ended, or it fell silent, or it announces nothing any more."""
    BETTER_OFFER = "better offer"
    """A node of another tree, or one much nearer to the root, would be the parent."""
    ENDS = "ends"


TRANSITIONS: Final[dict[tuple[TreeStanding, StandingCause], TreeStanding]] = {
    (TreeStanding.OUT, StandingCause.SERVES): TreeStanding.LOOKING,
    (TreeStanding.LOOKING, StandingCause.PARENT_TOOK_IT): TreeStanding.ATTACHED,
    (TreeStanding.LOOKING, StandingCause.NOBODY_FOUND): TreeStanding.ROOT,
    (TreeStanding.ATTACHED, StandingCause.PARENT_DETACHED): TreeStanding.PENDING,
    (TreeStanding.ATTACHED, StandingCause.PARENT_LOST): TreeStanding.LOOKING,
    (TreeStanding.ATTACHED, StandingCause.BETTER_OFFER): TreeStanding.LOOKING,
    (TreeStanding.PENDING, StandingCause.PARENT_SETTLED): TreeStanding.ATTACHED,
    (TreeStanding.PENDING, StandingCause.PARENT_LOST): TreeStanding.LOOKING,
    (TreeStanding.ROOT, StandingCause.BETTER_OFFER): TreeStanding.LOOKING,
    (TreeStanding.LOOKING, StandingCause.ENDS): TreeStanding.OUT,
    (TreeStanding.ROOT, StandingCause.ENDS): TreeStanding.OUT,
    (TreeStanding.ATTACHED, StandingCause.ENDS): TreeStanding.OUT,
    (TreeStanding.PENDING, StandingCause.ENDS): TreeStanding.OUT,
}
"""(standing, cause) -> next standing. What is not listed does not happen, or leaves it as it is."""
