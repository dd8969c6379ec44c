"""How much is done for connections in one turn of the event loop, so that all others have their turn soon.

Knows: units, and who goes on next.  Does not know what is done.

Invariant: nobody does more than a portion and what his last request costs before others have had a turn; of those that
have more to do, one goes on at a time.
"""

from __future__ import annotations

from typing import Final

import trio

PORTION: Final = 512
"""So many units one connection has at a time. A unit is about 10 us on the machine where this was built."""
TURN: Final = 1024
"""So many all connections at rest have together, before gossip and the clock have their turn."""
REQUEST: Final = 1
"""What any request costs."""
SERVICE_STEP: Final = 16
"""What a step of a service costs, such as one thing that another node tells."""


class TurnWork:
    """That of one node."""

    def __init__(self) -> None:
        self.done = 0
        """Units, since the start."""
        self._turn: Final = trio.Lock()

    def end_of(self, units: int = PORTION) -> int:
        """What `done` will be when so much more has been done."""
        return self.done + units

    async def give_way(self) -> None:
        """Let all others have a turn. Those that wait here go on in their order, one in a turn."""
        async with self._turn:
            await trio.lowlevel.checkpoint()
