"""Who is there when, as far as the faults of a scenario tell: how many others hear what a host writes.

Knows: which actions end a process, stop it, and start it again.  Does not know what else befalls a message; whether an
action applies is seen only when it runs.

Invariant: an estimate, from which no rule concludes anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from distkv.sim.scenario import Action, Verb

_ENDS: Final = frozenset({Verb.KILL, Verb.POWER, Verb.WIPE, Verb.BURN, Verb.RETIRE, Verb.ROLL_BACK, Verb.ROT})


class Presence:
    """Filled when it is made."""

    def __init__(self, host_count: int, late_count: int, actions: Iterable[Action]) -> None:
        is_up = [number < host_count - late_count for number in range(host_count)]
        is_paused = [False] * host_count
        self._times_ms = [0]
        self._hearers = [_hearers(is_up, is_paused)]
        for action in sorted(actions, key=attrgetter("at_ms")):
            match action.verb:
                case Verb.START:
                    is_up[action.host] = True
                case Verb.PAUSE | Verb.RESUME:
                    is_paused[action.host] = action.verb is Verb.PAUSE
                case _ if action.verb in _ENDS:
                    is_up[action.host] = is_paused[action.host] = False
                case _:
                    continue
            self._times_ms.append(action.at_ms)
            self._hearers.append(_hearers(is_up, is_paused))

    def hearers(self, at_ms: int, host: int) -> int:
        """How many others hear at once, or when they go on, what the host writes then; none, when it cannot write."""
        return self._hearers[bisect_right(self._times_ms, at_ms) - 1][host]


def _hearers(is_up: list[bool], is_paused: list[bool]) -> list[int]:
    others = sum(is_up) - 1
    return [others if up and not paused else 0 for up, paused in zip(is_up, is_paused, strict=True)]
