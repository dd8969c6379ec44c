"""How every job of `distkv pipeline` is carried out, and the values of options that several have.

Knows: Spark's session, and what Spark raises.  Does not know any job (`distkv.spark`), which is loaded when one is
carried out.

Invariant: a job ends with its result or with one line; progress is on stderr, and only on a terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import asyncclick as click

from distkv.cli.output import is_terminal
from distkv.cli.session import CliSession
from distkv.errors import SparkFailedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_GONE: Final = "FAILED_READ_FILE.FILE_NOT_EXIST"
_UNREAD_FILE: Final = re.compile(r"Encountered error while reading file (file:\S+?)\.\s")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_CAUSE: Final = "Caused by: "


def on_spark(session: CliSession, run: Callable[[SparkSession], T]) -> T:
    """Carry out a job; what Spark raises is told in one line."""
    from distkv.spark.session import session as spark_session

    place, begin = session.spark, session.begin_spark or spark_session
    with begin(place.master, place.conf, shows_logs=session.verbosity > 0) as spark:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return run(spark)
        except (Py4JError, PySparkException) as error:
            raise SparkFailedError(f"Spark failed: {reason_in(str(error))}; -v shows its log") from error


def reason_in(text: str) -> str:
    """Of what Spark says, with tracebacks of workers in it, the line that says what happened: ours, if there is one,
    else the file that it could not read, else the cause of all others."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("distkv.")]
    if not ours and (found := _UNREAD_FILE.search(text)) is not None:
        place = unquote(urlsplit(found[1]).path)
        if _GONE in text:
            return f"{place} is gone, as after a compaction that did not wait for this job: start it again"
        return f"{place} is damaged, or cannot be read: take the table from a copy"
    causes = [line.removeprefix(_CAUSE) for line in reversed(lines) if line.startswith(_CAUSE)]
    others = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (ours or causes or others or lines or ["no reason given"])[0]


def read_seconds(name: str, text: str) -> float:
    """The value of the option `name`.

    Raises:
        UsageError: it is none, or too short or long.
    """
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= 86_400:
        raise click.UsageError(f"{name} is {text!r}: write seconds, from 0.1 to 86400")
    return found


def read_count(name: str, text: str, most: int | None = None) -> int:
    """The value of the option `name`.

    Raises:
        UsageError: it is none, or not above 0, or above `most`.
    """
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) <= (most or 2**31 - 1)):
        range_ = "1 or above" if most is None else f"from 1 to {most}"
        raise click.UsageError(f"{name} is {text!r}: write a whole number, {range_}")
    return int(text)


class TableFolder(click.Path):
    """The folder of an event table, as an argument: one of this machine, which may be mounted from another."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and _URL.match(value):
            why = "is no folder: an event table is in a folder of this machine, or mounted there"
            self.fail(f"{value!r} {why}", param, ctx)
        return super().convert(value, param, ctx)


class ProgressLine:
    """A line on a terminal that says how far a job is; nothing elsewhere."""

    def __init__(self) -> None:
        self._is_shown = is_terminal(sys.stderr)

    def tell(self, done: int, of: int) -> None:
        """So many events of so many."""
        if self._is_shown:
            click.echo(f"\r{done} of {of} events", nl=False, err=True)

    def end(self) -> None:
        """What is printed from now on stands on a line of its own."""
        if self._is_shown:
            click.echo(err=True)
