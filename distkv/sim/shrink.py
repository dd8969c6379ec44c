"""A failing scenario with as little in it as still fails the same way.

Knows: how to leave things out.  Does not know what they are.

Invariant: what is returned fails by the same rule as what was given; the work is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from distkv.sim.network import Faults
from distkv.sim.run import Verdict, run
from distkv.sim.scenario import Scenario

RUNS_MAX = 150
"""How many runs a shrinking may take."""


class Shrinker:
    """Cuts one scenario down."""

    def __init__(self, scenario: Scenario, rule: str, runs_max: int = RUNS_MAX) -> None:
        self._scenario = scenario
        self._rule = rule
        self._left = runs_max
        self.kept = tuple(range(len(scenario.actions)))
        """The numbers of the actions that are left."""

    def shrink(self) -> Scenario:
        """The smallest that was found."""
        self._without_network_faults()
        self._without_actions()
        return self._scenario.only(self.kept)

    def _without_network_faults(self) -> None:
        for field in attrs.fields(Faults):
            if field.name == "silence_ms":
                continue
            clean = getattr(Faults(), field.name)
            network = attrs.evolve(self._scenario.network, **{field.name: clean})
            if network != self._scenario.network:
                smaller = attrs.evolve(self._scenario, network=network)
                if self._fails(smaller, self.kept):
                    self._scenario = smaller

    def _without_actions(self) -> None:
        """Leave out halves, then quarters, and so on down to single actions."""
        size = len(self.kept) // 2
        while size and self._left > 0:
            is_smaller = False
            for part in list(_parts(self.kept, size)):
                rest = tuple(number for number in self.kept if number not in part)
                if self._fails(self._scenario, rest):
                    self.kept = rest
                    is_smaller = True
            if not is_smaller or size > len(self.kept):
                size //= 2

    def _fails(self, scenario: Scenario, kept: tuple[int, ...]) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        outcome = run(scenario.only(frozenset(kept)))
        return outcome.verdict is Verdict.FAILED and outcome.rule == self._rule


def _parts(numbers: tuple[int, ...], size: int) -> Iterator[frozenset[int]]:
    for begin in range(0, len(numbers), size):
        yield frozenset(numbers[begin : begin + size])
