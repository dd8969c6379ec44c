"""A command on a busy machine: beside it `LOAD` processes do nothing but compute.

Knows: how a machine is made busy.  Does not know what is run.

Invariant: what made it busy has ended when `run_loaded` returns or raises; the kernel sees to it if this process is
killed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from testing.bounded import end_with_parent
from testing.steps import ROOT

LOAD: Final = 8
"""So many busy processes."""
BUSY: Final = (sys.executable, "-c", "while True: pass")


def run_loaded(words: Sequence[str]) -> int:
    """Run a command, and give its exit code.

    Raises:
        KeyboardInterrupt: Ctrl-C, which the command has got as well.
    """
    with ExitStack() as stack:
        for _ in range(LOAD):
            busy = subprocess.Popen(BUSY, preexec_fn=partial(end_with_parent, signal.SIGKILL))
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        return subprocess.run(words, cwd=ROOT, check=False).returncode
