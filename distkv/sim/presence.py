"""Who is there when, as far as the faults of a scenario tell: how many others hear what a host writes.

Knows: which actions end a process, stop it, and start it again.  Does not know what else befalls a message; whether an
action applies is seen only when it runs.

Invariant: an estimate, from which no rule concludes anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from distkv.sim.actions import Deed, RotSome, StartNode, ToNode
from distkv.sim.scenario import Planned

_ENDS: Final = frozenset({Deed.STOP, Deed.CRASH, Deed.WIPE, Deed.BURN, Deed.ROLL_BACK})


class Presence:
    """Filled when it is made."""

    def __init__(self, names: Sequence[str], late_count: int, planned: Iterable[Planned]) -> None:
        """The last `late_count` of the names do not start with the others."""
        first = len(names) - late_count
        is_up = {name: number < first for number, name in enumerate(names)}
        is_paused = dict.fromkeys(names, False)
        self._times_ms = [0]
        self._hearers = [_hearers(is_up, is_paused)]
        for one in sorted(planned, key=attrgetter("at_ms")):
            action = one.action
            if isinstance(action, StartNode):
                is_up[action.node] = True
            elif isinstance(action, ToNode) and action.deed in (Deed.PAUSE, Deed.RESUME):
                is_paused[action.node] = action.deed is Deed.PAUSE
            elif isinstance(action, RotSome) or (isinstance(action, ToNode) and action.deed in _ENDS):
                ended = action.nodes if isinstance(action, RotSome) else (action.node,)
                is_up |= dict.fromkeys(ended, False)
                is_paused |= dict.fromkeys(ended, False)
            else:
                continue
            self._times_ms.append(one.at_ms)
            self._hearers.append(_hearers(is_up, is_paused))

    def hearers(self, at_ms: int, name: str) -> int:
        """How many others hear at once, or when they go on, what the host writes then; none, when it cannot write."""
        return self._hearers[bisect_right(self._times_ms, at_ms) - 1][name]


def _hearers(is_up: Mapping[str, bool], is_paused: Mapping[str, bool]) -> dict[str, int]:
    others = sum(is_up.values()) - 1
    return {name: others if up and not is_paused[name] else 0 for name, up in is_up.items()}
