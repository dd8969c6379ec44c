"""A cut while all nodes are written to, and its end: what most tests of this folder are about.

Knows: how long a cut lasts, how it is told from none, and what to measure when it is over.  Does not know what else
happens meanwhile, nor what must hold then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from tests.netns.lab import NAMES, Lab
from tests.netns.promises import Written
from tests.profiles import size

CUT_S = size(0, 30)
"""At least so long; longer when the agents have not noticed yet."""

Record: TypeAlias = Callable[[str, object], None]
"""pytest's `record_property`: what it is told is printed when all tests have run."""


@contextmanager
def cut_and_healed(
    lab: Lab,
    written: Written,
    sides: Sequence[str],
    record: Record,
    *,
    deaf: Sequence[str] | None = None,
    written_on: str = NAMES,
) -> Iterator[None]:
    """Cut the network, do the block, wait until the cut is old enough and was noticed, heal it, and wait for all.

    Nodes are written to from before the cut until the agents have met again.

    Args:
        lab: its nodes are all ready.
        written: where to note what was written.
        sides: the names of the nodes on each; those that shall be deaf first.
        record: gets the figures.
        deaf: the sides at which nothing arrives any more; None: all. What they send does arrive at the others.
        written_on: those that are written to all the time.
    """
    deaf = sides if deaf is None else deaf
    with written.everywhere(lab, written_on):
        began_s = time.monotonic()
        for side in deaf:
            lab.network.drop(side, of=others(side))
        written.contest(lab, [side[0] for side in reversed(sides)])  # who is heard writes last: the others know nothing
        yield
        wait_cut(lab, began_s, sides)
        for side in deaf:
            assert_deaf(lab, written, side)
        healed_s = time.monotonic()
        lab.network.heal()
        lab.wait_together()
        record("agents together after", f"{time.monotonic() - healed_s:.1f} s")
    lab.wait_equal(60)
    record("equal after", f"{time.monotonic() - healed_s:.1f} s")


def wait_cut(lab: Lab, began_s: float, sides: Sequence[str]) -> None:
    """Until it is long enough ago, and all agents have noticed."""
    lab.wait(lambda: time.monotonic() - began_s > CUT_S, "the cut is long enough", CUT_S + 5)
    lab.wait_apart(sides)


def assert_deaf(lab: Lab, written: Written, side: str) -> None:
    """These nodes have heard nothing of what was written elsewhere when the cut began; otherwise it is none."""
    there = [link for link in written.contested if link[0] in others(side)]
    assert there, "nobody wrote on another side"
    heard = {name: lab.has_heard(name, there) for name in side}
    assert not any(heard.values()), f"the cut is none: {heard}"


def others(side: str) -> list[str]:
    """The nodes that are not on this side."""
    return [name for name in NAMES if name not in side]
