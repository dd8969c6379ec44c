"""Which of several failures to tell.

Knows: that trio wraps what ends a nursery into groups.  Does not know what the failures mean.

Invariant: a failure that we raised on purpose is told before one that we did not expect, and that one before what
others were told of it.
"""

from __future__ import annotations

from distkv.errors import DistkvError, InternalError, leaves


def first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure to tell: one of ours when there is one, else the first."""
    flat = sorted(leaves(group), key=lambda error: isinstance(error, InternalError))
    ours = [error for error in flat if isinstance(error, DistkvError) and not isinstance(error, InternalError)]
    return (ours or flat)[0]
