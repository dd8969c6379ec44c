"""Many seeds of the plays of tokens: `python -m tests.property.token_plays [PLAY...] [--first N] [--count N]`.

Knows: which plays there are.  Does not know what they play.

Invariant: a seed that fails is printed with what was wrong and the command that repeats it, and the next one follows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from tests.property import test_token_consensus, test_token_holding, test_token_serving, test_token_whole
from tests.property.holding_client import HoldingClient

PLAYS: Final[dict[str, Callable[[int], object]]] = {
    "whole": test_token_whole.play,
    "whole-holding": lambda seed: test_token_whole.play(seed, HoldingClient),
    "queue": test_token_whole.test_nobody_passes_who_keeps_his_place_under_faults,
    "watchers": test_token_whole.test_watchers_know_in_the_end_who_holds_what,
    "consensus": test_token_consensus.play,
    "serving": test_token_serving.play,
    "holding": test_token_holding.test_faults_let_no_two_sessions_hold_and_all_is_granted_in_the_end,
}

CHUNK: Final = 4
"""So many seeds a process takes at a time."""


def failure(name: str, seed: int) -> str | None:
    """What is wrong with a seed, if it fails."""
    try:
        PLAYS[name](seed)
    except (AssertionError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"seed {seed} of {name}: {type(error).__name__} {error}"[:300].replace("\n", " / ")
    return None


def main() -> int:
    """Play seeds; 1 when one failed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("plays", metavar="PLAY", nargs="*", help=", ".join(PLAYS), default=[*PLAYS])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many of each play")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    arguments = parser.parse_args()
    has_failed = False
    seeds = range(arguments.first, arguments.first + arguments.count)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for name in arguments.plays:
            began, found = time.monotonic(), 0
            for seed, words in zip(seeds, pool.map(partial(failure, name), seeds, chunksize=CHUNK), strict=True):
                if words is not None:
                    found += 1
                    _say(f"{words}\n  again: python -m tests.property.token_plays {name} --first {seed} --count 1")
            _say(f"{name}: {arguments.count} seeds, {found} failed, {time.monotonic() - began:.0f} s")
            has_failed |= bool(found)
    return int(has_failed)


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
