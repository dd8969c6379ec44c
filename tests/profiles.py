"""How much of what repeats is run: few and fixed by `make test`, many and drawn anew by `make soak`.

Knows: the two profiles. `test` draws the same at every run, so that chance blocks no landing; what failed once stands
beside it, as a seed or an `@example`. `soak` draws from a number that it prints, and that repeats it:
`pytest TEST --soak NUMBER`.  Does not know who draws.

Invariant: the profile is chosen before the first test is read, in each process of tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hypothesis import settings

EXAMPLES: Final = 25
"""Of a property that does not say how many, in the profile `test`."""
TIMES: Final = 10
"""So many times as much in the profile `soak`."""

SPAN: Final = 10_000
"""No test draws more seeds from one number: two numbers that are so far apart have none in common."""

_soak: list[int] = []
"""The number from which `soak` draws; empty in `test`."""


def choose(soak: int | None) -> None:
    """Draw from this number, or with None what is always drawn."""
    # No test fails on time: a machine may be busy.
    _soak[:] = [] if soak is None else [soak]
    always = settings(settings.get_profile("default"), deadline=None, database=None)
    settings.register_profile("test", always, derandomize=True, max_examples=EXAMPLES)
    settings.register_profile("soak", always, derandomize=False, max_examples=EXAMPLES * TIMES, print_blob=True)
    settings.load_profile("soak" if _soak else "test")


def examples(count: int, **more: Any) -> settings:
    """For a property of which `make test` tries so many examples. `more`: other settings of hypothesis."""
    return settings(max_examples=count * TIMES if _soak else count, **more)


def size(few: int, many: int) -> int:
    """Of something whose size is not the point: few of them in `make test`, many in a soak."""
    return many if _soak else few


def seeds(count: int, found: Iterable[int] = ()) -> list[int]:
    """The seeds of a test: the first `count` and those that failed once; in a soak many that begin at its number."""
    if count * TIMES > SPAN:
        raise ValueError(f"{count} seeds are too many: a soak would draw {count * TIMES}, and may draw {SPAN}")
    if _soak:
        return list(range(_soak[0], _soak[0] + count * TIMES))
    return [*range(count), *found]
