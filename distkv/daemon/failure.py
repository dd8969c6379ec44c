"""Which of several failures to tell.

Knows: that trio wraps what ends a nursery into groups.  Does not know what the failures mean.

Invariant: a failure that we raised on purpose is told before one that we did not expect.
"""

from __future__ import annotations

from distkv.errors import DistkvError, leaves


def first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure to tell: one of ours when there is one, else the first."""
    flat = list(leaves(group))
    ours = [error for error in flat if isinstance(error, DistkvError)]
    return (ours or flat)[0]
