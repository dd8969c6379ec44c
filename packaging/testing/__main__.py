"""`packaging/test.sh [PART...]`: run parts of the tests, all of them when none is named; or `quick`, `times`,
`soak`, `loaded COMMAND`.

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
    if words == ["times"]:
        return times.show()
    if words == ["soak"]:
        for end in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: the slice ends, and all is printed
            signal.signal(end, signal.default_int_handler)
        return soak.main(os.environ)
    if words[:1] == ["loaded"] and len(words) > 1:
        return run_loaded(words[1:])
    unknown = [word for word in words if word not in PARTS]
    if unknown and words != ["quick"]:
        known = ", ".join(PARTS)
        return _refuse(
            f"no part is called {', '.join(unknown)}: name some of {known}; or quick, times, soak, loaded COMMAND"
        )
    try:
        return run_quick(os.environ.get("ONLY", "")) if unknown else run_parts(words or list(PARTS))
    except ValueError as error:
        return _refuse(f"ONLY: {error}")
    except KeyboardInterrupt:
        return 130


def _refuse(what: str) -> int:
    print(what, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
