"""All mutants of all lists, each with the one who judges it.

Knows: which list has which mutant; names stand once in a list, not in all of them.  Does not know how a mutant is
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from tests.mutants import logged, run, shell, simulated
from tests.mutants.run import Mutant


@dataclass(frozen=True)
class Judged:
    """A mutant of a list."""

    mutant: Mutant
    killer: Callable[..., str | None]
    """What notices it, None when nothing does; `is_soaking=True`: with more seeds and examples, if need be. It raises
    MutantError."""


LISTS: dict[str, list[Judged]] = {
    "run": [Judged(one, partial(run.killer, one)) for one in run.MUTANTS],
    "logged": [Judged(one, partial(logged.killer, one)) for one in logged.LOGGED],
    "simulated": [Judged(one.mutant, partial(simulated.killer, one)) for one in simulated.SIMULATED],
    "shell": [Judged(one.mutant, partial(shell.killer, one)) for one in shell.BROKEN],
}
EVERY = {f"{name}-{one.mutant.name}": one for name, some in LISTS.items() for one in some}
"""By the name of the list and its own."""


def named(words: Iterable[str]) -> dict[str, Judged]:
    """Those of these names, or lists; a name without its list is that of all lists which have it. All without words.

    Raises:
        LookupError: with the words that name nothing.
    """
    found, unknown = dict[str, Judged](), []
    for word in words:
        some = {key: one for key, one in EVERY.items() if word in (key, one.mutant.name, key.partition("-")[0])}
        found |= some
        unknown += [] if some else [word]
    if unknown:
        raise LookupError(", ".join(unknown))
    return found or EVERY
