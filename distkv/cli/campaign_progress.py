"""What stderr shows while many seeds run: how far they are, and each that failed as soon as it did.

Knows: terminals, and the sum so far.  Does not know how seeds are run, nor what is printed in the end.

Invariant: on a terminal one line is rewritten, and a seed that failed has a line of its own above it. Elsewhere no line
is rewritten, and one that says how far it is comes once a minute.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import asyncclick as click

from distkv.cli.output import is_terminal

if TYPE_CHECKING:
    from distkv.sim.campaign import Sum
    from distkv.sim.run import Outcome

EVERY_S: Final = 60.0
"""Where nobody rewrites a line, one comes so often."""
CLEAR: Final = "\r\033[K"
"""To the begin of the line, and nothing more in it."""


class CampaignProgress:
    """How far the seeds are."""

    def __init__(self, of: int, line: Callable[[Outcome], str]) -> None:
        """
        Args:
            of: so many seeds are run.
            line: what became of a seed, in words.
        """
        self._of: Final = of
        self._line: Final = line
        self._is_rewritten: Final = is_terminal(sys.stderr)
        self._began_s = self._told_s = time.monotonic()
        self._runs = self._failed = 0
        if self._is_rewritten:
            click.echo(f"0 of {of} seeds", nl=False, err=True)

    def tell(self, found: Sum) -> None:
        """One more was run."""
        for outcome in found.failed[self._failed :]:
            click.echo(f"{CLEAR if self._is_rewritten else ''}{self._line(outcome)}", err=True)
        self._runs, self._failed = found.runs, len(found.failed)
        now_s = time.monotonic()
        if self._is_rewritten:
            click.echo(f"{CLEAR}{self._words(now_s)}", nl=False, err=True)
        elif now_s - self._told_s >= EVERY_S:
            self._told_s = now_s
            click.echo(self._words(now_s), err=True)

    def end(self) -> None:
        """What is printed from now on begins at the begin of a line."""
        if self._is_rewritten:
            click.echo(CLEAR, nl=False, err=True)

    @property
    def so_far(self) -> str:
        """How far they are, in words."""
        return f"{self._runs} of {self._of} seeds" + (f", {self._failed} failed" if self._failed else "")

    def _words(self, now_s: float) -> str:
        left_s = (now_s - self._began_s) / self._runs * (self._of - self._runs)
        return f"{self.so_far}, about {_duration(left_s)} left"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
