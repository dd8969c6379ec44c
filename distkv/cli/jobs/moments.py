"""`distkv pipeline asof` and `restore`, and the options that choose a moment of an event table.

Knows: their options, and how their results are printed.  Does not know what they do (`spark.asof`, `spark.restore`).

Invariant: a job that needs a moment gets exactly one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

import asyncclick as click
import attrs

from distkv.cli import exits
from distkv.cli.jobs.running import TableFolder, on_spark
from distkv.cli.output import Form, binary_stdout, complain, print_result, rendered
from distkv.cli.session import CliSession, Job, output_option
from distkv.errors import SettingsError
from distkv.model.path import Path
from distkv.text.moment import read_moment
from distkv.wire.values import unpack_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from distkv.spark.asof import Cut


_UNASKED: Final = "not known: whether a clock was set back after the last 'pipeline archive', since no node was asked"


@attrs.frozen
class CutOptions:
    """Which events of a table count, and where."""

    ticks: str | None
    """A file."""
    at: str | None
    latest: bool
    path: Path
    allow_gaps: bool

    @property
    def is_chosen(self) -> bool:
        return self.ticks is not None or self.at is not None or self.latest

    @property
    def unasked(self) -> tuple[str, ...]:
        """What nobody knows of a time when no node was asked, in lines."""
        return () if self.at is None else (_UNASKED,)

    def check(self) -> None:
        """
        Raises:
            UsageError: it is none, or several.
            SettingsError: the time is none.
        """
        if sum(chosen is not None for chosen in (self.ticks, self.at)) + self.latest != 1:
            raise click.UsageError("say which moment: one of --ticks FILE, --at TIME and --latest")
        self._at_s()  # before Java starts

    def cut(self) -> Cut:
        """
        Raises:
            SettingsError: the file or the time cannot be read.
        """
        from distkv.spark.asof import Cut
        from distkv.spark.source.offsets import read_ticks

        wanted = None if self.ticks is None else read_ticks(_read(self.ticks), f"the file {self.ticks}")
        return Cut(wanted, self._at_s())

    def _at_s(self) -> float | None:
        return None if self.at is None else read_moment(self.at)


def moment_options(command: Callable[..., Job]) -> Callable[..., Job]:
    """--ticks, --at, --latest, --path and --allow-gaps, as one argument `moment`."""

    @click.option("--ticks", metavar="FILE", type=click.Path(),
                  help="The events of these ticks: 'held' of 'distkv client state' as JSON.")  # fmt: skip
    @click.option("--at", metavar="TIME", help="All events up to TIME, by the clocks of their writers.")
    @click.option("--latest", is_flag=True, help="All events that the table has.")
    @click.option("--path", metavar="PATH", default=":", help="Only values at and below PATH.")
    @click.option("--allow-gaps", is_flag=True, help="Also if the table lacks some of the events.")
    @wraps(command)
    def found(
        *given: Any, ticks: str | None, at: str | None, latest: bool, path: str, allow_gaps: bool, **others: Any
    ) -> Job:
        return command(*given, moment=CutOptions(ticks, at, latest, Path.parse(path), allow_gaps), **others)

    return found


@click.command("asof")
@click.argument("directory", metavar="DIR", type=TableFolder())
@moment_options
@click.option("--to", "to", metavar="FILE", type=click.Path(), help="Write the tree to FILE, and print a summary.")
@output_option
@click.pass_obj
def asof_command(session: CliSession, directory: str, moment: CutOptions, to: str | None, form: str | None) -> Job:
    """Show the tree as it was, from the event table DIR, in the format of 'distkv client dump'."""
    moment.check()
    return partial(_asof, session, directory, moment, to, Form(form) if form else session.form)


@click.command("restore")
@click.argument("directory", metavar="DIR", type=TableFolder())
@moment_options
@click.option("--apply", "applies", is_flag=True, help="Write; otherwise only count what would be written.")
@output_option
@click.pass_obj
def restore_command(session: CliSession, directory: str, moment: CutOptions, applies: bool, form: str | None) -> Job:
    """Set the live tree back to an earlier moment, from the event table DIR.

    Without --apply it only counts. If somebody changes a value during the job, the value is left alone and named, and
    the exit code is 4.
    """
    moment.check()
    return partial(_restore, session, directory, moment, applies, Form(form) if form else session.form)


# -- what they do -------------------------------------------------------------------------------------------------


def _asof(session: CliSession, directory: str, moment: CutOptions, to: str | None, form: Form) -> None:
    from distkv.spark.places import replace_file, writable_file

    place = None if to is None else writable_file(to)

    def run(spark: SparkSession) -> Any:
        from distkv.spark.asof import asof

        return asof(spark, directory, moment.cut(), path=moment.path, allow_gaps=moment.allow_gaps)

    found = on_spark(session, run)
    unknown = (*found.unknown, *moment.unasked)
    summary = {
        "entries": len(found.entries),
        "conflicts": found.conflicts,
        "deletions": found.deletions,
        "digest": found.digest,
        "ticks": found.ticks,
        "gaps": found.gaps,
        "unknown": unknown,
    }
    for line in unknown:
        complain(line)
    lines = _dump_lines(found.entries, moment.path)
    if place is None:
        out = binary_stdout()
        out.writelines(lines)
        out.flush()
        return
    replace_file(place, lines)
    words = (
        f"{len(found.entries)} values, {found.conflicts} open conflicts"
        f"{f' ({found.deletions} of them deletions)' if found.deletions else ''}, of {found.ticks} events"
        f"{'' if found.digest is None else f'; digest {found.digest}'}; {found.gaps} gaps"
    )
    print_result(words if form is Form.TEXT else summary, form)


def _restore(session: CliSession, directory: str, moment: CutOptions, applies: bool, form: Form) -> int:
    def run(spark: SparkSession) -> Any:
        from distkv.spark.restore import restore

        return restore(
            spark, session.addresses, directory, moment.cut(), path=moment.path, apply=applies,
            allow_gaps=moment.allow_gaps,
        )  # fmt: skip

    found = on_spark(session, run)
    for line in found.unknown:
        complain(line)
    for path in found.changed_paths:
        complain(f"{path} changed meanwhile, and was left alone")
    for path in found.fenced_paths:
        complain(f"{path} was left alone, because a token holds it")
    counts = {
        "set": found.set, "deleted": found.deleted, "same": found.same, "changed": found.changed,
        "fenced": found.fenced, "unknown": found.unknown,
    }  # fmt: skip
    would = "" if applies else "to be "
    words = (
        f"{found.set} values {would}set, {found.deleted} {would}deleted, {found.same} as they were, "
        f"{found.changed} changed meanwhile"
    )
    if found.fenced:
        words += f", {found.fenced} held by tokens"
    print_result(words if form is Form.TEXT else counts, form)
    return exits.CONFLICT if found.changed or found.fenced else exits.DONE


# -- inside -------------------------------------------------------------------------------------------------------


def _dump_lines(entries: list[tuple[Path, bytes]], top: Path) -> Iterator[bytes]:
    """As `distkv client dump -o json` writes them: paths relative to PATH."""
    for path, value in entries:
        yield rendered({"path": str(Path(path.names[len(top) :])), "value": unpack_value(value)}, Form.JSON)


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file} cannot be read: {error}") from None
