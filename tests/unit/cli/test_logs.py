"""What a log line looks like.

Knows: records.  Does not know who logs.
"""

from __future__ import annotations

import json
import logging
import math
import re

import pytest

from distkv.cli.logs import JsonFormatter, LineFormatter, level_of, read_log_option

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


# -- JSON ---------------------------------------------------------------------------------------------------------


def as_json(message: str, *arguments: object, error: BaseException | None = None, **options: bool) -> dict[str, object]:
    line = JsonFormatter(**options).format(record(message, *arguments, error=error))
    assert line.isprintable()
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


def test_object_has_time_level_source_id_and_fields() -> None:
    found = as_json("gap_found node=%s first=%d seconds=%.2f", "a", 12, 0.5)
    assert re.fullmatch(PREFIX.strip(), str(found.pop("time")))
    assert found == {
        "level": "warning", "source": "x", "id": "gap_found", "fields": {"node": "a", "first": 12, "seconds": 0.5}
    }  # fmt: skip


def test_event_without_fields_has_none() -> None:
    assert as_json("space_again")["fields"] == {}


def test_words_for_people_are_no_part_of_an_object() -> None:
    found = as_json("no_space reason=%s: writes will be refused", "full=yes x=%s")
    assert (found["id"], found["fields"]) == ("no_space", {"reason": "full=yes x=%s"})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        ("a\nb\x1b\u2028\udc80", "a\nb\x1b\u2028\udc80"),
        (math.inf, "inf"),
        (ValueError("x"), "x"),
    ],
)
def test_value_of_a_field_is_what_json_has_for_it(value: object, shown: object) -> None:
    assert as_json("said text=%s", value)["fields"] == {"text": shown}


def test_what_is_no_event_is_told_in_its_words() -> None:
    found = as_json("Task %s was left behind", "t")
    assert (found["id"], found["fields"]) == ("other", {"text": "Task t was left behind"})


def test_error_and_its_place_are_in_the_object() -> None:
    assert as_json("failed", error=ValueError("x\ny"))["error"] == "ValueError: x\ny"
    assert "traceback" not in as_json("failed", error=ValueError("x"))
    assert as_json("failed", error=ValueError("x"), with_traceback=True)["traceback"] == "ValueError: x"


# -- levels -------------------------------------------------------------------------------------------------------


def test_log_option_names_a_source_and_a_level() -> None:
    assert read_log_option("engine=debug") == ("engine", logging.DEBUG)


@pytest.mark.parametrize(
    ("verbosity", "level"),
    [(-9, "CRITICAL"), (-1, "ERROR"), (0, "WARNING"), (1, "INFO"), (2, "DEBUG"), (9, "DEBUG")],
)
def test_level_follows_verbosity(verbosity: int, level: str) -> None:
    assert logging.getLevelName(level_of(verbosity)) == level
