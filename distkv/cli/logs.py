"""Logging of `distkv server`: one event, one line on stderr: time, level, id, fields.

Knows: how a line looks in each format, and which levels -v, -q and --log ask for.  Does not know the events: a message
is `id key=%s key=%s ...`, where words for people may follow the last.

Invariant: a record is one line, whatever its text, so that nothing which others sent can forge a second one. (-vvv adds
tracebacks; as text these take lines of their own.)
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import time
from collections.abc import Mapping
from typing import Final

from distkv.cli.session import TRACEBACKS
from distkv.errors import SettingsError

LEVELS: Final = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
LEVEL_NAMES: Final = tuple(logging.getLevelName(level).lower() for level in LEVELS)
DEFAULT_LEVEL: Final = 2
"""Where in `LEVELS` a command without -v and -q stands."""

SOURCES: Final = ("daemon", "engine")
"""Which parts of a server log; each has the logger `distkv.SOURCE`."""

TEXT: Final = "text"
"""The format that is for people; the other one is `json`."""


def level_of(verbosity: int) -> int:
    """The level for so many -v (each -q counts -1)."""
    return LEVELS[max(0, min(len(LEVELS) - 1, DEFAULT_LEVEL + verbosity))]


def read_log_option(text: str) -> tuple[str, int]:
    """The source and level in SRC=LEVEL.

    Raises:
        SettingsError: it is not that, or one of them does not exist.
    """
    source, equals, level = text.partition("=")
    if not equals:
        raise SettingsError(f"--log {text}: write SRC=LEVEL, such as engine=debug")
    if source not in SOURCES:
        raise SettingsError(f"--log {text}: there is no source {source!r}: it must be one of {', '.join(SOURCES)}")
    if level not in LEVEL_NAMES:
        raise SettingsError(f"--log {text}: there is no level {level!r}: it must be one of {', '.join(LEVEL_NAMES)}")
    return source, LEVELS[LEVEL_NAMES.index(level)]


def log_to_stderr(form: str, verbosity: int, levels: Mapping[str, int]) -> None:
    """Send what the process logs to stderr.

    Args:
        form: `log.format`.
        verbosity: how many -v, less how many -q.
        levels: what --log says; it counts more.
    """
    handler = logging.StreamHandler(sys.stderr)
    kind = LineFormatter if form == TEXT else JsonFormatter
    handler.setFormatter(kind(with_traceback=verbosity >= TRACEBACKS))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level_of(verbosity))
    for source, level in levels.items():
        logging.getLogger(f"distkv.{source}").setLevel(level)


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z warning gap_found node=a first=12`; the logger's name is left out, ids are unique."""

    def __init__(self, *, with_traceback: bool = False) -> None:
        super().__init__()
        self._with_traceback = with_traceback

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname.lower()} {_one_line(record.getMessage())}"
        if not record.exc_info or record.exc_info[0] is None:
            return line
        if self._with_traceback:
            return f"{line}\n{self.formatException(record.exc_info)}"
        return f"{line} error={record.exc_info[0].__name__}: {_one_line(str(record.exc_info[1]))}"


class JsonFormatter(logging.Formatter):
    """`{"time": ..., "level": "warning", "source": "engine", "id": "gap_found", "fields": {"node": "a", "first": 12}}`

    With an error also `error`, and with -vvv `traceback`. What is not an event of ours has the id `other` and its
    words in the field `text`.
    """

    def __init__(self, *, with_traceback: bool = False) -> None:
        super().__init__()
        self._with_traceback = with_traceback

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, object] = {"time": _time(record), "level": record.levelname.lower()}
        found["source"] = record.name.removeprefix("distkv.")
        found["id"], found["fields"] = _event(record)
        if record.exc_info and record.exc_info[0] is not None:
            found["error"] = f"{record.exc_info[0].__name__}: {record.exc_info[1]}"
            if self._with_traceback:
                found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found)  # as ASCII, hence one line


# -- inside -------------------------------------------------------------------------------------------------------

_ID: Final = re.compile(r"[a-z][a-z0-9_]*(?= |$)")
_FIELD: Final = re.compile(r" (\w+)=%[.\d]*[a-z]")


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03}Z"


def _event(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The id and the fields of a record; the names stand in its template, the values are its arguments."""
    template = str(record.msg)
    event, names = _ID.match(template), _FIELD.findall(template)
    values = record.args if isinstance(record.args, tuple) else (record.args,)
    if event is None or not record.name.startswith("distkv.") or len(names) != len(values):
        return "other", {"text": record.getMessage()}
    return event[0], {name: _json_value(value) for name, value in zip(names, values, strict=True)}


def _json_value(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _one_line(text: str) -> str:
    """Every character that could end a line or steer a terminal as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
