"""`distkv pipeline`: jobs on Spark over all that happened in the fleet.

Knows: the options of the group and of its jobs, and how results are printed.  Does not know what a job does
(`distkv.spark`), which it loads when one is carried out.

Invariant: no job begins before its whole command line was understood; the result is one line on stdout, or with -o one
object, progress is on stderr, and only on a terminal.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncclick as click
import attrs

from distkv.cli import exits
from distkv.cli.commands import Commands
from distkv.cli.output import Form, binary_stdout, complain, print_result, rendered
from distkv.cli.session import Job, Session, SparkPlace, output_option, read_addresses
from distkv.errors import SettingsError, SparkFailedError
from distkv.model.path import Path
from distkv.wire.values import unpack_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from distkv.spark.asof import Cut

T = TypeVar("T")

COMMANDS: Final = Commands(
    {
        "archive": "pipeline:archive_command",
        "files": "pipeline:files_command",
        "asof": "pipeline:asof_command",
        "restore": "pipeline:restore_command",
        "export": "pipeline:export_command",
    }
)


@click.group("pipeline", commands=COMMANDS)
@click.option(
    "-h", "--host", "hosts", multiple=True, metavar="HOST",
    help="Where nodes are, HOST or HOST:PORT; more than one are asked in turn for what others lack. "
    "[env: DISTKV_HOST, with commas] [default: 127.0.0.1]",
)  # fmt: skip
@click.option("-p", "--port", metavar="PORT", help="Their port. [env: DISTKV_PORT] [default: 27586]")
@click.option("--master", default="local[*]", metavar="URL", show_default=True, help="Where Spark works.")
@click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.pass_context
def pipeline(
    context: click.Context, hosts: tuple[str, ...], port: str | None, master: str, conf: tuple[str, ...]
) -> None:
    """Archive all that happens in the fleet, and work with it, on Spark.

    Needs the extra: pip install 'distkv[spark]', and Java 17.
    """
    session: Session = context.obj
    session.addresses = read_addresses(hosts, port, os.environ.get("DISTKV_HOST"), os.environ.get("DISTKV_PORT"))
    session.spark = SparkPlace(master, dict(map(_setting, conf)))


@click.command("archive")
@click.option("--to", "directory", required=True, metavar="DIR", type=click.Path(), help="The event table.")
@click.option("--once", is_flag=True, help="End with all that is held now, and do not go on.")
@click.option("--every", "every", metavar="S", default="5", show_default=True, help="Commit every S seconds.")
@click.option("--path", "path", metavar="PATH", default=":", help="Only what happens at and below PATH.")
@click.option("--max-rows", "max_rows", metavar="N", default="1000000", show_default=True,
              help="Commit at most N events at once.")  # fmt: skip
@output_option
@click.pass_obj
def archive_command(
    session: Session, directory: str, once: bool, every: str, path: str, max_rows: str, form: str | None
) -> Job:
    """Write all events of the fleet into the event table DIR, exactly once, and go on until SIGTERM.

    What was overwritten is in it, too, as far as somebody has it; what nobody has is counted as a gap. A run that was
    killed goes on where it was.
    """
    place, every_s = Path.parse(path), _seconds("--every", every)
    count_max = _count("--max-rows", max_rows)
    return partial(_archive, session, directory, once, every_s, place, count_max, Form(form) if form else session.form)


@click.command("files")
@click.argument("directory", metavar="DIR", type=click.Path())
@click.pass_obj
def files_command(_: Session, directory: str) -> Job:
    """List the files of the event table DIR, one a line; a commit that was broken off is finished or undone first."""
    return partial(_files, directory)


@attrs.frozen
class _Moment:
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

    def check(self) -> None:
        """
        Raises:
            UsageError: it is none, or several.
        """
        if sum(chosen is not None for chosen in (self.ticks, self.at)) + self.latest != 1:
            raise click.UsageError("say which moment: one of --ticks FILE, --at TIME and --latest")

    def cut(self) -> Cut:
        """
        Raises:
            SettingsError: the file or the time cannot be read.
        """
        from distkv.spark.asof import Cut, read_time
        from distkv.spark.offsets import read_ticks

        wanted = None if self.ticks is None else read_ticks(_read(self.ticks), f"the file {self.ticks}")
        return Cut(wanted, None if self.at is None else read_time(self.at))


def _moment_options(command: Callable[..., Job]) -> Callable[..., Job]:
    """--ticks, --at, --latest, --path and --allow-gaps, as one argument `moment`."""

    @click.option("--ticks", metavar="FILE", type=click.Path(),
                  help="The events of these ticks: 'held' of 'distkv client state' as JSON.")  # fmt: skip
    @click.option("--at", metavar="TIME", help="All events up to TIME, by the clocks of those who wrote them.")
    @click.option("--latest", is_flag=True, help="All events that the table has.")
    @click.option("--path", metavar="PATH", default=":", help="Only what is at and below PATH.")
    @click.option("--allow-gaps", is_flag=True, help="Also when the table lacks some of the events.")
    @wraps(command)
    def found(
        *given: Any, ticks: str | None, at: str | None, latest: bool, path: str, allow_gaps: bool, **others: Any
    ) -> Job:
        return command(*given, moment=_Moment(ticks, at, latest, Path.parse(path), allow_gaps), **others)

    return found


@click.command("asof")
@click.argument("directory", metavar="DIR", type=click.Path())
@_moment_options
@click.option("--to", "to", metavar="FILE", type=click.Path(), help="Write the tree there, and print what it came to.")
@output_option
@click.pass_obj
def asof_command(session: Session, directory: str, moment: _Moment, to: str | None, form: str | None) -> Job:
    """Show the tree as it was, from the event table DIR, as 'distkv client dump' would have."""
    moment.check()
    return partial(_asof, session, directory, moment, to, Form(form) if form else session.form)


@click.command("restore")
@click.argument("directory", metavar="DIR", type=click.Path())
@_moment_options
@click.option("--apply", "applies", is_flag=True, help="Write; else only count what would be written.")
@output_option
@click.pass_obj
def restore_command(session: Session, directory: str, moment: _Moment, applies: bool, form: str | None) -> Job:
    """Make the live tree again what it was, from the event table DIR.

    Without --apply it only counts. A value that somebody changes meanwhile is left alone and named, and the exit code
    is 4 then.
    """
    moment.check()
    return partial(_restore, session, directory, moment, applies, Form(form) if form else session.form)


@click.command("export")
@click.option("--to", "to", required=True, metavar="DIR", type=click.Path(), help="A folder that is empty or missing.")
@click.option("--format", "files", required=True, type=click.Choice(["csv", "json", "parquet"]), help="Of the files.")
@click.option("--table", "table", metavar="DIR", type=click.Path(),
              help="The tree as of a moment of this event table; else the live one.")  # fmt: skip
@_moment_options
@output_option
@click.pass_obj
def export_command(
    session: Session, to: str, files: str, table: str | None, moment: _Moment, form: str | None
) -> Job:
    """Write values and their paths into files, of the live tree or as of a moment."""
    if table is not None:
        moment.check()
    elif moment.is_chosen:
        raise click.UsageError("a moment is one of an event table: name it with --table DIR")
    return partial(_export, session, to, files, table, moment, Form(form) if form else session.form)


# -- what they do -------------------------------------------------------------------------------------------------


def _archive(
    session: Session, directory: str, once: bool, every_s: float, path: Path, max_rows: int, form: Form
) -> None:
    is_shown = sys.stderr.isatty()

    def run(spark: SparkSession) -> Any:
        from distkv.spark.archive import Stopping, Wishes, archive, archive_once

        wishes, stopping = Wishes(session.addresses, path, max_rows), Stopping()
        tell = _tell if is_shown else _say_nothing
        signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.stop())
        if once:
            return archive_once(spark, directory, wishes, stopping=stopping, tell=tell)
        return archive(spark, directory, wishes, stopping=stopping, every_s=every_s, tell=tell, warn=complain)

    found = _on_spark(session, run)
    if is_shown:
        click.echo(err=True)
    words = (
        f"{found.events} events archived, {found.gaps} gaps, {found.filled} filled; commit {found.commit}: "
        f"{found.total} events and {found.total_gaps} gaps in all; {found.seconds:.1f} s"
    )
    print_result(words if form is Form.TEXT else attrs.asdict(found), form)


def _files(directory: str) -> None:
    from distkv.spark.table import open_table

    with open_table(directory, network=None) as table:
        for file in table.files():
            click.echo(file)


def _asof(session: Session, directory: str, moment: _Moment, to: str | None, form: Form) -> None:
    def run(spark: SparkSession) -> Any:
        from distkv.spark.asof import asof

        return asof(spark, directory, moment.cut(), path=moment.path, allow_gaps=moment.allow_gaps)

    found = _on_spark(session, run)
    summary = {
        "entries": len(found.entries),
        "conflicts": found.conflicts,
        "deletions": found.deletions,
        "digest": found.digest,
        "ticks": found.ticks,
        "gaps": found.gaps,
    }
    lines = _dump_lines(found.entries, moment.path)
    if to is None:
        out = binary_stdout()
        out.writelines(lines)
        out.flush()
        return
    with open(to, "wb") as file:
        file.writelines(lines)
    words = (
        f"{len(found.entries)} values, {found.conflicts} open conflicts"
        f"{f' ({found.deletions} of them deletions)' if found.deletions else ''}, of {found.ticks} events"
        f"{'' if found.digest is None else f'; digest {found.digest}'}; {found.gaps} gaps"
    )
    print_result(words if form is Form.TEXT else summary, form)


def _restore(session: Session, directory: str, moment: _Moment, applies: bool, form: Form) -> int:
    def run(spark: SparkSession) -> Any:
        from distkv.spark.restore import restore

        return restore(
            spark, session.addresses, directory, moment.cut(), path=moment.path, apply=applies,
            allow_gaps=moment.allow_gaps,
        )  # fmt: skip

    found = _on_spark(session, run)
    for path in found.changed_paths:
        complain(f"{path} changed meanwhile, and was left alone")
    counts = {"set": found.set, "deleted": found.deleted, "same": found.same, "changed": found.changed}
    would = "" if applies else "to be "
    words = (
        f"{found.set} values {would}set, {found.deleted} {would}deleted, {found.same} as they were, "
        f"{found.changed} changed meanwhile"
    )
    print_result(words if form is Form.TEXT else counts, form)
    return exits.CONFLICT if found.changed else exits.DONE


def _export(session: Session, to: str, files: str, table: str | None, moment: _Moment, form: Form) -> None:
    def run(spark: SparkSession) -> Any:
        from distkv.spark.export import ExportForm, export

        where = {"addresses": session.addresses} if table is None else {"table": table, "cut": moment.cut()}
        return export(spark, to, ExportForm(files), **where, path=moment.path, allow_gaps=moment.allow_gaps)

    found = _on_spark(session, run)
    print_result(f"{found.rows} values written" if form is Form.TEXT else attrs.asdict(found), form)


def _dump_lines(entries: list[tuple[Path, bytes]], top: Path) -> Iterator[bytes]:
    """As `distkv client dump -o json` writes them: paths relative to PATH."""
    for path, value in entries:
        yield rendered({"path": str(Path(path.names[len(top) :])), "value": unpack_value(value)}, Form.JSON)


# -- inside -------------------------------------------------------------------------------------------------------


def _on_spark(session: Session, run: Callable[[SparkSession], T]) -> T:
    """Carry out a job; what Spark raises is told in one line."""
    from distkv.spark.session import session as spark_session

    place = session.spark
    with spark_session(place.master, place.conf, shows_logs=session.verbosity > 0) as spark:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return run(spark)
        except (Py4JError, PySparkException) as error:
            raise SparkFailedError(f"Spark failed: {_reason(str(error))}; -v shows its log") from error


def _reason(text: str) -> str:
    """Of what Spark says, with tracebacks of workers in it, the line that says what happened: ours, if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("distkv.")]
    others = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (ours or others or lines or ["no reason given"])[0]


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file} cannot be read: {error}") from None


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--conf is {text!r}: write KEY=VALUE, such as spark.executor.memory=2g")
    return key, value


def _seconds(name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= 86_400:
        raise click.UsageError(f"{name} is {text!r}: write seconds, from 0.1 to 86400")
    return found


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) < 2**31):
        raise click.UsageError(f"{name} is {text!r}: write a whole number, 1 or above")
    return int(text)


def _tell(done: int, of: int) -> None:
    """On a terminal."""
    click.echo(f"\r{done} of {of} events", nl=False, err=True)


def _say_nothing(_done: int, _of: int) -> None:
    pass
