"""`packaging/test.sh [PART...]`: run parts of the tests, all of them when none is named.

`packaging/test.sh quick` takes what is nearest to a change, `times` shows what the last run cost, `soak` runs for hours
what repeats, and `loaded COMMAND` runs a command on a busy machine.

Knows: the words of the command line.  Does not know what they do.
"""

from __future__ import annotations

import os
import signal
import sys

from testing import soak, times
from testing.loaded import run_loaded
from testing.parts import PARTS
from testing.whole import run_parts, run_quick


def main(words: list[str]) -> int:
    """The exit code: 1 when something failed, 2 when a word is unknown."""
    try:
        match words:
            case ["times"]:
                return times.show()
            case ["quick"]:
                return run_quick(os.environ.get("ONLY", ""))
            case ["soak"]:
                for end in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: the slice ends, and all is printed
                    signal.signal(end, signal.default_int_handler)
                return soak.main(os.environ)
            case ["loaded", *command] if command:
                return run_loaded(command)
            case names:
                return run_parts(_known(names) or list(PARTS))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _known(names: list[str]) -> list[str]:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        others = "quick, times, soak, or loaded COMMAND"
        raise ValueError(f"no part is called {', '.join(unknown)}: name some of {', '.join(PARTS)}; or {others}")
    return names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
