"""A mutant that the simulator judges.

Knows: what was seen to notice it.  Does not know how it is judged (`simulated`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants.run import Mutant


@dataclass(frozen=True)
class Simulated:
    """A mutant, and what shows it."""

    mutant: Mutant
    seed: int = 0
    """The first to be tried: it was seen to notice, if no scenario was."""
    scenario: str = ""
    """One that was seen to notice."""
