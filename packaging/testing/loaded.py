"""A command on a busy machine: beside it `LOAD` processes do nothing but compute.

Knows: how a machine is made busy.  Does not know what is run.

Invariant: what made it busy has ended when `run_loaded` returns or raises; the kernel sees to it if this process is
killed.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from testing.steps import ROOT

LOAD: Final = 8
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def run_loaded(words: Sequence[str]) -> int:
    """Run a command, and give its exit code.

    Raises:
        KeyboardInterrupt: Ctrl-C, which the command has got as well.
    """
    with ExitStack() as stack:
        for _ in range(LOAD):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=_end_with_parent)
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        return subprocess.run(words, cwd=ROOT, check=False).returncode


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
