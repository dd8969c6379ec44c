"""What a client that resumes lacks.

Knows: in which order it gets that, and what it must not get any more.  Does not know who the client is.

Invariant: it is told of each number that it lacks, once: as an activity, within a gap, or not at all where it was never
echoed, and comes too late: its sender had a later epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distkv.core.activity.kept import KeptActivities
from distkv.core.activity.requests import ActivityGap, ActivityItem
from distkv.core.activity.senders import Senders


def missed(
    kept: KeptActivities, senders: Senders, reached: Mapping[str, int], have: Mapping[str, int]
) -> Iterator[ActivityItem | ActivityGap]:
    """All that was given out here, and that somebody lacks who has this of each origin.

    Args:
        kept: what is still here of it.
        senders: with which epochs it was sent.
        reached: how far this node is with each origin.
        have: how far the client is.
    """
    due = dict[str, int]()
    for placed in kept.missing(have, reached):
        activity = placed.activity
        origin, number = activity.origin, activity.number
        expected = due.get(origin, have.get(origin, 0) + 1)
        if number > expected:
            yield ActivityGap(origin, expected, number - 1)
        due[origin] = number + 1
        if not activity.is_late and not senders.is_superseded(activity.sender, have):
            yield ActivityItem(origin, number, activity.activity)
    for origin, number in reached.items():
        expected = due.get(origin, have.get(origin, 0) + 1)
        if expected <= number:
            yield ActivityGap(origin, expected, number)
