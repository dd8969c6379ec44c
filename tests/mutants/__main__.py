"""Judge mutants of all lists: `python -m tests.mutants [NAME...]`.

Knows: what is printed of each.  Does not know which there are (`every`), nor how one is judged.

Invariant: a mutant that lives, or cannot be judged, is followed by the command that judges it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.every import EVERY, Judged, named
from tests.mutants.run import MutantError


def main() -> int:
    """Print what notices each; 1 when one lives or could not be judged, 2 when a name is unknown."""
    parser = argparse.ArgumentParser(description="Take rules away, and see who notices.")
    parser.add_argument("names", metavar="NAME", nargs="*", help="a mutant, with or without its list; a list; all")
    parser.add_argument("--names", action="store_true", dest="lists", help="print the names, and judge nothing")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    arguments = parser.parse_args()
    if arguments.lists:
        sys.stdout.writelines(f"{name}\n" for name in EVERY)
        return 0
    try:
        chosen = named(arguments.names)
    except LookupError as error:
        sys.stderr.write(f"no mutant is called {error.args[0]}\n")
        return 2
    width, lives = max(map(len, chosen)), False
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for name, (is_killed, words) in zip(chosen, pool.map(_judge, chosen.values()), strict=True):
            lives |= not is_killed
            again = "" if is_killed else f"  again: python -m tests.mutants {name}\n"
            sys.stdout.write(f"{name:{width}} | {words}\n{again}")
            sys.stdout.flush()
    return int(lives)


def _judge(one: Judged) -> tuple[bool, str]:
    """Whether it is killed, and by what."""
    began = time.monotonic()
    try:
        found = one.killer(is_soaking=True)
        words = found or f"SURVIVES: nothing notices that {one.mutant.rule!r} does not hold"
    except MutantError as error:
        found, words = None, f"ERROR {error}".replace("\n", " / ")
    return found is not None, f"{time.monotonic() - began:5.1f} s | {words}"


if __name__ == "__main__":
    sys.exit(main())
