"""One command of the tests: run, shown, timed, and its last words kept.

Knows: how a command is run.  Does not know which commands there are (`parts`).

Invariant: all that a command printed is shown as it comes; what is kept of it has a bound.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]
KEPT_LINES: Final = 40
"""Of a command that failed and is no test: its end."""
NOT_FOUND: Final = 127
"""As a shell ends where there is no such command."""


@attrs.frozen
class Step:
    """A command, and what it gets besides the environment of all."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = attrs.field(factory=dict)
    waits: bool = False
    """It waits more than it works: others of its kind may run beside it."""

    @property
    def text(self) -> str:
        """As somebody would type it."""
        return shlex.join(self.words)


@attrs.frozen
class Ended:
    """How a command ended, and what it cost."""

    step: Step
    code: int
    wall_s: float
    cpu_s: float
    """With all that it started and waited for."""
    last: tuple[str, ...]
    """The last lines that it printed."""


def step(*words: str, **environment: str) -> Step:
    """A command, with variables of its own."""
    return Step(words, environment)


def waiting(*words: str) -> Step:
    """A command beside which others of its kind may run."""
    return Step(words, waits=True)


def run(one: Step, environment: Mapping[str, str], show: Callable[[str], object]) -> Ended:
    """Run a command to its end, and show each line that it prints.

    Raises:
        KeyboardInterrupt: Ctrl-C, which the command has got as well, and has ended by.
    """
    last: deque[str] = deque(maxlen=KEPT_LINES)
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            one.words,
            cwd=ROOT,
            env={**environment, **one.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return Ended(one, NOT_FOUND, 0.0, 0.0, (str(error),))
    assert process.stdout is not None
    try:
        for line in process.stdout:
            text = line.decode(errors="replace")
            show(text)
            last.append(text.rstrip())
    finally:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
    wall = time.monotonic() - began
    return Ended(one, process.returncode, wall, usage.ru_utime + usage.ru_stime, tuple(last))
