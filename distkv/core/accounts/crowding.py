"""Who gives up a place where too much waits: so that nobody keeps out others by asking often.

Knows: from where each comes, as a number (`services.origin`).  Does not know for what they wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def crowding(sources: Mapping[K, int]) -> K:
    """Of those that come from where most come from, the one that came last; `sources` has who came first, first."""
    counts = Counter(sources.values())
    most = max(counts.values())
    return next(one for one in reversed([*sources]) if counts[sources[one]] == most)
