"""How a node stands in the server tree.

Knows: the states and what moves a node from one to the next.  Does not know why: the machine tells it.

Invariant: a node takes children only as a root or attached, when it knows its whole way to the root (docs/protocol,
TREE-2).  The machine is the table `TRANSITIONS`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TreePhase(StrEnum):
    """How a node stands."""

    OUT = "out"
    """It takes no part: it does not serve clients."""
    LOOKING = "looking"
    """It has no parent, and looks for one."""
    ROOT = "root"
    ATTACHED = "attached"
    PENDING = "pending"
    """It has a parent, and a node above looks for one."""


class TreeCause(StrEnum):
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


TRANSITIONS: Final[dict[tuple[TreePhase, TreeCause], TreePhase]] = {
    (TreePhase.OUT, TreeCause.SERVES): TreePhase.LOOKING,
    (TreePhase.LOOKING, TreeCause.PARENT_TOOK_IT): TreePhase.ATTACHED,
    (TreePhase.LOOKING, TreeCause.NOBODY_FOUND): TreePhase.ROOT,
    (TreePhase.ATTACHED, TreeCause.PARENT_DETACHED): TreePhase.PENDING,
    (TreePhase.ATTACHED, TreeCause.PARENT_LOST): TreePhase.LOOKING,
    (TreePhase.ATTACHED, TreeCause.BETTER_OFFER): TreePhase.LOOKING,
    (TreePhase.PENDING, TreeCause.PARENT_SETTLED): TreePhase.ATTACHED,
    (TreePhase.PENDING, TreeCause.PARENT_LOST): TreePhase.LOOKING,
    (TreePhase.ROOT, TreeCause.BETTER_OFFER): TreePhase.LOOKING,
}
"""(phase, cause) -> next phase. What is not listed does not happen, or leaves it as it is."""
