"""Failures that nobody foresaw, and how far each may reach.

Knows: which failures the node must end of, and how the others are told, counted and logged.  Does not know what its
victim was doing.

Invariant: what is contained is counted each time, and logged with the place where it happened; it is never silent.
A failure of ours that ends the node on purpose is never contained. Nor is one in the midst of a step of the core: the
driver sees to that, because what the core holds may then be half of something.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from hashlib import blake2b
from typing import Final

from distkv.errors import (
    DecodeError,
    DistkvError,
    InternalError,
    PeerError,
    RequestError,
    TransportError,
    leaves,
    place_of,
)

log = logging.getLogger("distkv.engine")

CONTAINED: Final = (RequestError, PeerError, DecodeError, TransportError)
"""Of our own errors those that are about one request, peer or message; the others end the node."""
SCARCE_S: Final = 5.0
"""For so long after there was not enough memory it is looked at before each write."""
REPEAT: Final = 100
"""Of a failure at one place the first is logged, and then every so many-th."""


class Faults:
    """The failures of one node."""

    def __init__(self, counters: Counter[str]) -> None:
        """`counters`: where they are counted, as `faults_contained`."""
        self._counters: Final = counters
        self._seen = Counter[str]()
        self._no_memory_s = -SCARCE_S

    @property
    def memory_ran_out(self) -> bool:
        """Whether something met a lack of memory a moment ago."""
        return time.monotonic() < self._no_memory_s + SCARCE_S

    def contain(self, error: Exception, where: str) -> InternalError:
        """Log and count a failure; `where` is what its victim did, in the same words each time: with the place it makes
        the id. Returns what the victim is told.

        Raises:
            Exception: the error itself, when the node must end of it.
        """
        first, *others = leaves(error)
        if isinstance(first, InternalError) and not others:
            return first  # it was told where it came from
        for leaf in (first, *others):
            if not isinstance(leaf, Exception) or (isinstance(leaf, DistkvError) and not isinstance(leaf, CONTAINED)):
                raise error
        if any(isinstance(leaf, MemoryError) for leaf in leaves(error)):
            self._no_memory_s = time.monotonic()
        place = place_of(error)
        id = blake2b(f"{place} {where}".encode(), digest_size=4).hexdigest()
        self._counters["faults_contained"] += 1
        self._seen[id] += 1
        if self._seen[id] % REPEAT == 1:
            times = self._seen[id]
            log.error("fault_contained id=%s where=%s at=%s times=%d", id, where, place, times, exc_info=first)
        return InternalError(f"internal error {id} in {where}: the log of the server says more; please report it")
