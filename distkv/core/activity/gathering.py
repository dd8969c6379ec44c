"""When what a login lacks is gathered from what is kept: little at once, much in turn.

Knows: how much each lacks, and what was gathered lately.  Does not know clients, nor what they are told.

Whoever lacks all that is kept costs a node much, and may come again and again.

Invariant: of what is more than `LITTLE`, at most `EACH_S` a second is gathered, one login after the other.
"""

from __future__ import annotations

from typing import Final

from distkv.core.activity.kept import KeptActivities
from distkv.core.activity.origins import Origins
from distkv.core.activity.requests import Login
from distkv.model.invariant import must

LITTLE: Final = 2_000
"""So many activities are gathered at once."""
EACH_S: Final = 200_000


class Gathering:
    """That of one node."""

    def __init__(self, kept: KeptActivities, origins: Origins) -> None:
        self._kept: Final = kept
        self._origins: Final = origins
        self._last = 0
        """How many were gathered for the last login that lacked much."""
        self._free_ms = 0
        """When the next such login may come."""

    def begin(self, login: Login, now_ms: int) -> int:
        """Gather what a login lacks, if this returns `now_ms`; else it is to be asked again then."""
        count = self._kept.count_missing(login.resume, self._origins.all_reached()) if login.resume else 0
        if count <= LITTLE:
            return now_ms
        if self._free_ms <= now_ms:
            self._last, self._free_ms = count, now_ms + count * 1000 // EACH_S
            return now_ms
        return self._free_ms

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._last == 0 or self._last > LITTLE, "only who lacks much has to wait for others")
