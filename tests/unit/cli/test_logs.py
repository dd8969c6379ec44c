"""What a log line looks like.

Knows: records.  Does not know who logs.
"""

from __future__ import annotations

import logging
import re

import pytest

from distkv.cli.logs import LineFormatter, level_of

PREFIX = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "


def record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("distkv.x", logging.WARNING, "file", 1, message, arguments, info)


def test_line_has_time_level_id_and_fields() -> None:
    line = LineFormatter().format(record("gap_found node=%s first=%d", "a", 12))
    assert re.fullmatch(PREFIX + r"warning gap_found node=a first=12", line)


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\x1b[31m", "a\u2028b", "a\x85b"])
def test_text_of_others_cannot_make_a_second_line(text: str) -> None:
    line = LineFormatter().format(record("said text=%s", text))
    assert line.isprintable()


def test_error_is_told_in_the_line() -> None:
    line = LineFormatter().format(record("failed", error=ValueError("x\ny")))
    assert line.endswith(r"warning failed error=ValueError: x\ny")


def test_traceback_is_added_only_when_asked_for() -> None:
    line = LineFormatter(with_traceback=True).format(record("failed", error=ValueError("x")))
    assert line.splitlines()[1:] == ["ValueError: x"]


@pytest.mark.parametrize(
    ("verbosity", "level"),
    [(-9, "CRITICAL"), (-1, "ERROR"), (0, "WARNING"), (1, "INFO"), (2, "DEBUG"), (9, "DEBUG")],
)
def test_level_follows_verbosity(verbosity: int, level: str) -> None:
    assert logging.getLevelName(level_of(verbosity)) == level
