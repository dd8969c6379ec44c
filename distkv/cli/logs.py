"""Logging of `distkv server`: one event, one line on stderr: time, level, id, fields.

Knows: how a line looks and which levels -v and -q ask for.  Does not know the events: a message is `id key=value ...`.

Invariant: a record is one line, whatever its text, so that nothing which others sent can forge a second one.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

LEVELS: Final = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
DEFAULT_LEVEL: Final = 2
"""Where in `LEVELS` a command without -v and -q stands."""

TRACEBACKS: Final = 3
"""From this many -v on, errors come with the place in the program where they arose."""


def level_of(verbosity: int) -> int:
    """The level for so many -v (each -q counts -1)."""
    return LEVELS[max(0, min(len(LEVELS) - 1, DEFAULT_LEVEL + verbosity))]


def log_to_stderr(verbosity: int) -> None:
    """Send what the process logs to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(with_traceback=verbosity >= TRACEBACKS))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level_of(verbosity))


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z warning gap_found node=a first=12`; the logger's name is left out, ids are unique."""

    def __init__(self, *, with_traceback: bool = False) -> None:
        super().__init__()
        self._with_traceback = with_traceback

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = f"{seconds}.{int(record.msecs):03}Z {record.levelname.lower()} {_one_line(record.getMessage())}"
        if not record.exc_info or record.exc_info[0] is None:
            return line
        if self._with_traceback:
            return f"{line}\n{self.formatException(record.exc_info)}"
        return f"{line} error={record.exc_info[0].__name__}: {_one_line(str(record.exc_info[1]))}"


def _one_line(text: str) -> str:
    """Every character that could end a line or steer a terminal as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
