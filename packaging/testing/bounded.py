"""A command that has only so much time: run in a session of its own, shown, and ended with all that it started.

Knows: how a command is ended.  Does not know which command it is (`steps`), nor what its words mean (`outcome`).

Invariant: when `run_bounded` returns or raises, no process is left that the command started: each of them carries a
mark in its environment.
"""

from __future__ import annotations

import ctypes
import enum
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Final

import attrs

from testing.steps import NOT_FOUND, ROOT, Step

LINES_MAX: Final = 20_000
"""So many lines of it are kept, the last ones."""
GRACE_S: Final = 30.0
"""So long a command may tidy up after it was interrupted."""
MARK: Final = "SOAK_SLICE"
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)
"""What is said of a process that ended meanwhile, or is somebody else's."""


class Stopped(enum.Enum):
    """Why a command was ended."""

    LATE = "its time was over"
    ASKED = "Ctrl-C"


@attrs.frozen
class Ran:
    """How a command ended."""

    code: int
    wall_s: float
    cpu_s: float
    """With all that it started and waited for."""
    lines: tuple[str, ...]
    stopped: Stopped | None = None


def run_bounded(one: Step, environment: Mapping[str, str], within_s: float, grace_s: float = GRACE_S) -> Ran:
    """Run a command for so long at most. Ctrl-C ends it, and is told in what is returned.

    Raises:
        KeyboardInterrupt: a second Ctrl-C.
    """
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    lines: deque[str] = deque(maxlen=LINES_MAX)
    began, used = time.monotonic(), _childrens_s()
    try:
        process = subprocess.Popen(
            one.words,
            cwd=ROOT,
            env={**environment, **one.environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=partial(end_with_parent, signal.SIGINT),
        )
    except OSError as error:
        return Ran(NOT_FOUND, 0.0, 0.0, (str(error),))
    assert process.stdout is not None
    reader = threading.Thread(target=_show, args=(process.stdout, lines), daemon=True)
    reader.start()
    stopped = None
    try:
        stopped = _wait(process, within_s)
        if stopped:
            _interrupt(process, grace_s)
    finally:
        for pid in _marked(mark):
            with suppress(*GONE):
                os.kill(pid, signal.SIGKILL)
        process.wait()
    reader.join()
    return Ran(process.returncode, time.monotonic() - began, _childrens_s() - used, tuple(lines), stopped)


def end_with_parent(by: signal.Signals) -> None:
    """In a process that begins: it gets this signal when the one that started it has ended, however it did."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, by)


def _show(output: IO[bytes], lines: deque[str]) -> None:
    with output:
        for line in output:
            text = line.decode(errors="replace")
            sys.stdout.write(text)
            sys.stdout.flush()
            lines.append(text.rstrip())


def _wait(process: subprocess.Popen[bytes], within_s: float) -> Stopped | None:
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return Stopped.LATE
    except KeyboardInterrupt:
        return Stopped.ASKED
    return None


def _interrupt(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """As Ctrl-C on a terminal does, to all of the group."""
    with suppress(*GONE):
        os.killpg(process.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)


def _marked(mark: str) -> Iterator[int]:
    """The processes that carry the mark, until there are none: one that was just started may not be seen at first."""
    entry = f"{MARK}={mark}".encode()
    while found := [pid for pid in _pids() if entry in _environment(pid)]:
        yield from found
        time.sleep(0.02)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _environment(pid: int) -> list[bytes]:
    """Empty for one that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def _childrens_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
