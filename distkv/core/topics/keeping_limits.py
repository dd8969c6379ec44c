"""How long, and how much, a topic is kept: the oldest messages go, whoever is owed them.

Knows: which topics have such a limit, and when the next message of each is too old.  Does not know who is owed what.

Messages are looked at in the order in which they came: one that came late goes not before those which came before it.

Invariant: behind a look no topic has more bytes than it may have, and no message is older than it may be but one that
came late, or those above `AT_ONCE`: these go with the next look.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.alarms import Alarms
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.topic import Topic
from distkv.model.ranges import Ranges

AT_ONCE: Final = 2000
"""No more messages of a topic go in one step."""
LOOK_MS: Final = 60_000
"""A topic is looked at so often at the least: the clock that people see may jump."""
LEAST_MS: Final = 100


class KeepingLimits:
    """Those of the topics that a node owns. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self) -> None:
        self._alarms: Final = Alarms[str]()

    def apply(self, turn: ServiceTurn, topic: Topic, keep_s: float, keep_bytes: int) -> None:
        """Let go what is too old or too much; 0: there is no such limit."""
        if not keep_s and not keep_bytes:
            self._alarms.drop(topic.name)
            return
        excess = topic.held_bytes - keep_bytes if keep_bytes else 0
        going, count, wait_ms = dict[str, Ranges](), 0, None
        for message in topic.oldest():
            left_s = message.time + keep_s - turn.wall
            if excess <= 0 and (left_s > 0 or not keep_s):
                if keep_s:
                    wait_ms = min(int(left_s * 1000) + LEAST_MS, LOOK_MS)
                break
            if count == AT_ONCE:
                wait_ms = LEAST_MS
                break
            going.setdefault(message.producer, Ranges()).add(message.counter)
            excess -= message.size
            count += 1
        if going:
            topic.forget_all(going)
            turn.note("topic_limit_reached", topic=topic.name, count=count)
        if wait_ms is None:  # what comes next is looked at, too
            self._alarms.drop(topic.name)
        else:
            self._alarms.put(topic.name, turn.boot_ms + wait_ms)

    def drop(self, name: str) -> None:
        """There is no such topic here any more."""
        self._alarms.drop(name)

    def take_due(self, now_ms: int) -> list[str]:
        """The topics that are to be looked at."""
        return self._alarms.take_due(now_ms)

    def wake_ms(self) -> int | None:
        """When there is one."""
        return self._alarms.first_ms

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._alarms.check()
