"""What a command line says about the group in which it takes part.

Knows: the words of it.  Does not know how one takes part, so that `--help` loads nothing of that.

Invariant: none; what cannot be is refused when it is used.
"""

from __future__ import annotations

from typing import Final

import attrs

GROUP: Final = "group"
"""As `distkv.open_group` has it."""


@attrs.frozen
class GroupCall:
    """Which group, and where."""

    bind: str
    """HOST:PORT; empty: any from which the first of `join` can be reached."""
    join: tuple[str, ...]
    secrets: tuple[str, ...]
    group: str
