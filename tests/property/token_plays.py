"""Many seeds of the plays of tokens: `python -m tests.property.token_plays [PLAY...] [--first N] [--count N]`.

Knows: which plays there are.  Does not know what they play.

Invariant: a seed that fails is printed with what was wrong, and the next one follows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final

from tests.property import test_token_holding, test_token_serving, test_token_whole
from tests.property.holding_client import HoldingClient

PLAYS: Final[dict[str, Callable[[int], object]]] = {
    "whole": test_token_whole.play,
    "whole-holding": lambda seed: test_token_whole.play(seed, HoldingClient),
    "queue": test_token_whole.test_nobody_passes_who_keeps_his_place_under_faults,
    "watchers": test_token_whole.test_watchers_know_in_the_end_who_holds_what,
    "serving": test_token_serving.play,
    "holding": test_token_holding.test_faults_let_no_two_sessions_hold_and_all_is_granted_in_the_end,
}


def failures(play: Callable[[int], object], seeds: range) -> list[str]:
    """What was wrong with each seed that failed."""
    found = list[str]()
    for seed in seeds:
        try:
            play(seed)
        except (AssertionError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            found.append(f"seed {seed}: {type(error).__name__} {error}"[:300])
            sys.stdout.write(f"  {found[-1]}\n")
            sys.stdout.flush()
    return found


def main() -> int:
    """Play seeds; 1 when one failed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("plays", metavar="PLAY", nargs="*", help=", ".join(PLAYS), default=[*PLAYS])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many of each play")
    arguments = parser.parse_args()
    has_failed = False
    for name in arguments.plays:
        began, used = time.monotonic(), time.process_time()
        found = failures(PLAYS[name], range(arguments.first, arguments.first + arguments.count))
        took = f"{time.monotonic() - began:.0f} s, {time.process_time() - used:.0f} s of the processor"
        sys.stdout.write(f"{name}: {arguments.count} seeds, {len(found)} failed, {took}\n")
        sys.stdout.flush()
        has_failed |= bool(found)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
