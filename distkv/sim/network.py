"""What lies between the hosts: which ways are open, and what becomes of a message on its way.

Knows: cuts, loss, copies and delays.  Does not know hosts, nor what messages mean.

Invariant: each way draws from a generator of its own (but in large networks), so that what one pair of hosts meets does
not depend on the others; the same seed and the same messages give the same fate.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

import attrs

from distkv.transport.diversion import Diversion

LATE_TELLS: Final = 0.1
"""Of what services tell so much takes as long as gossip."""


@attrs.define
class NetworkFaults:
    """What happens to gossip, and to connections between peers. A spread of delays reorders."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms: tuple[int, int] = (1, 20)
    answer_ms: tuple[int, int] = (1, 10)
    """One way of a request, and the time of each part of the answer."""
    breaks: float = 0.0
    """The chance that a connection breaks, at each part."""
    update_loss: float = 0.0
    """The least loss of updates: Serf drops those first."""
    late: float = 0.0
    """The chance that gossip misses a host at first and comes by the agents' push/pull."""
    late_ms: tuple[int, int] = (2000, 15_000)
    silence_ms: int = 0
    """How long a peer that does not answer is waited for."""


class Network:
    """All ways between hosts, by name. `faults` may be replaced at any time."""

    def __init__(self, seed: int | str, faults: NetworkFaults | None = None, *, is_large: bool = False) -> None:
        self.faults = NetworkFaults() if faults is None else faults
        self.cut: set[tuple[str, str]] = set()
        """(from, to): nothing passes that way; a connection needs both ways."""
        self.diversions: list[Diversion] = []
        """What a script does to single messages of gossip, besides."""
        self._seed = seed
        self._shared = random.Random(seed) if is_large else None
        """The generator of all ways, where one for each would fill the memory."""
        self._ways: dict[tuple[str, str], random.Random] = {}

    def partition(self, sides: Iterable[Iterable[str]], names: Iterable[str]) -> None:
        """Cut every way between two sides; who of `names` is on none hears nobody."""
        side_of = {name: number for number, side in enumerate(sides) for name in side}
        every = list(names)
        self.cut = {(a, b) for a in every for b in every if a != b and side_of.get(a, a) != side_of.get(b, b)}

    def isolate(self, name: str, names: Iterable[str]) -> None:
        """Cut every way between one of `names` and the others."""
        self.cut |= {way for other in names if other != name for way in ((name, other), (other, name))}

    def rejoin(self, name: str) -> None:
        """Open every way from and to one, also to who is isolated still: of those who come back one by one, the first
        hear some and not others."""
        self.cut = {way for way in self.cut if name not in way}

    def passes(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) not in self.cut

    def unreachable(self) -> dict[str, set[str]]:
        """Which other ones each name cannot connect with; who reaches all is not in it."""
        found: dict[str, set[str]] = {}
        for one, other in self.cut:
            found.setdefault(one, set()).add(other)
            found.setdefault(other, set()).add(one)
        return found

    def connects(self, one: str, other: str) -> bool:
        return self.passes(one, other) and self.passes(other, one)

    def gossip(self, sender: str, receiver: str, *, is_update: bool) -> Iterable[int]:
        """One message on its way: the delay of each copy that arrives."""
        if (sender, receiver) in self.cut:
            return ()
        faults, rng = self.faults, self._way(sender, receiver)
        copies = 2 if faults.duplication and rng.random() < faults.duplication else 1
        loss = max(faults.loss, faults.update_loss) if is_update else faults.loss
        if sender != receiver and loss and rng.random() < loss:
            return ()
        is_late = sender != receiver and faults.late and rng.random() < faults.late
        low, high = faults.late_ms if is_late else faults.delay_ms
        return [low + int(rng.random() * (high - low + 1)) for _ in range(copies)]

    def told(self, sender: str, receiver: str) -> Iterable[int]:
        """What a service tells another node, on its way: the delay of each copy that arrives. It draws from generators
        of its own, so that services move nothing else."""
        if not self.connects(sender, receiver):
            return ()
        faults, rng = self.faults, self._way("tells of " + sender, receiver)
        if rng.random() < faults.loss:
            return ()
        copies = 2 if rng.random() < faults.duplication else 1
        low, high = faults.delay_ms if rng.random() < LATE_TELLS else faults.answer_ms
        return [low + int(rng.random() * (high - low + 1)) for _ in range(copies)]

    def answer_ms(self, one: str, other: str) -> int:
        """How long one part of a conversation takes."""
        low, high = self.faults.answer_ms
        return low + int(self._way(one, other).random() * (high - low + 1))

    def breaks(self, one: str, other: str) -> bool:
        """Whether a connection breaks now."""
        return self.faults.breaks > 0 and self._way(one, other).random() < self.faults.breaks

    def _way(self, sender: str, receiver: str) -> random.Random:
        if self._shared is not None:
            return self._shared
        way = (sender, receiver)
        rng = self._ways.get(way)
        if rng is None:
            rng = self._ways[way] = random.Random(f"{self._seed}/{sender}/{receiver}")
        return rng
