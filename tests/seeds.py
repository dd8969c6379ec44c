"""A seed of the simulator whose failure is soon cut down, in dozens of short runs.

Knows: what it draws.  Does not run it.
"""

from __future__ import annotations

from typing import Final

KILLS: Final = 56
"""It kills a node. What tests say of it holds for each seed that does; this one takes a third of what others take."""
