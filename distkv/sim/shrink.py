"""A failing scenario with as little in it as still fails by the same rule.

Knows: how to leave things out.  Does not know what they are.

Invariant: what is left fails as the whole did, and the work is bounded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from distkv.sim.draft import draw
from distkv.sim.run import Verdict, run
from distkv.sim.scenario import Scenario, part_names

RUNS_MAX: Final = 150
"""How many runs a shrinking may take."""


class Shrinker:
    """Cuts the scenario of one seed down: first whole kinds of faults, then single actions."""

    def __init__(self, seed: int, off: Collection[str], rule: str, kept: Collection[int] | None = None) -> None:
        self.off = frozenset(off)
        """The faults and services that are not needed."""
        self.kept = tuple(range(len(draw(seed, off).planned))) if kept is None else tuple(sorted(kept))
        """The numbers of the actions that are needed."""
        self._seed = seed
        self._rule = rule
        self._left = RUNS_MAX
        self._has_all = kept is None

    def shrink(self) -> Scenario:
        """The smallest that was found."""
        if self._has_all:  # numbers that were given would mean other actions
            self._without_faults()
        self._without_what_came_later()
        self._without_actions()
        return draw(self._seed, self.off).only(self.kept)

    def _without_faults(self) -> None:
        for fault in part_names():
            off = self.off | {fault}
            scenario = draw(self._seed, off)
            if fault not in self.off and self._fails(scenario):
                self.off, self.kept = off, tuple(range(len(scenario.planned)))

    def _without_what_came_later(self) -> None:
        """A run ends when it fails, so most of what would have come later did not happen at all."""
        scenario = draw(self._seed, self.off)
        outcome = run(scenario.only(self.kept))
        early = tuple(n for n in self.kept if scenario.planned[n].at_ms < outcome.virtual_ms)
        if self._fails(scenario.only(early)):
            self.kept = early

    def _without_actions(self) -> None:
        """Leave out halves, then quarters, and so on down to single actions."""
        scenario = draw(self._seed, self.off)
        size = len(self.kept) // 2
        while size and self._left > 0:
            for part in _parts(self.kept, size):
                rest = tuple(number for number in self.kept if number not in part)
                if self._fails(scenario.only(rest)):
                    self.kept = rest
            size //= 2

    def _fails(self, scenario: Scenario) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        outcome = run(scenario)
        return outcome.verdict is Verdict.FAILED and outcome.rule == self._rule


def _parts(numbers: tuple[int, ...], size: int) -> Iterator[frozenset[int]]:
    for begin in range(0, len(numbers), size):
        yield frozenset(numbers[begin : begin + size])
