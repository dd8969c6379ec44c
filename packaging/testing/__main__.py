"""`packaging/test.sh [PART...]`: run parts of the tests, all of them when none is named.

`packaging/test.sh quick` takes what is nearest to a change, `times` shows what the last run cost, and `soak` runs for
hours what repeats. `loaded [PART...]` runs parts in which real time passes, TIMES times, beside LOAD processes that
compute.

Knows: the words of the command line.  Does not know what they do.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from testing import soak, times
from testing.load import busy
from testing.parts import PARTS
from testing.whole import run_parts, run_quick

REAL: Final = ("process", "netns", "browser", "spark")
"""The parts in which real time passes."""


def main(words: list[str]) -> int:
    """The exit code: 1 when something failed, 2 when a word is unknown."""
    try:
        match words:
            case ["times"]:
                return times.show()
            case ["quick"]:
                return run_quick(os.environ.get("ONLY", ""))
            case ["soak"]:
                return soak.main(os.environ)
            case ["loaded", *names]:
                return _run_loaded(_known(names) or list(REAL))
            case names:
                return run_parts(_known(names) or list(PARTS))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run_loaded(names: list[str]) -> int:
    count, again = _number("LOAD", 8), _number("TIMES", 3)
    with busy(count):
        return max(run_parts(names, is_kept=False) for _ in range(again))


def _known(names: list[str]) -> list[str]:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise ValueError(f"no part is called {', '.join(unknown)}: name some of {', '.join(PARTS)}")
    return names


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 99):
        raise ValueError(f"{name} is a number from 1 to 99, not {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
