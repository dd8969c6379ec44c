"""`distkv pipeline archive` and `files`: keeping an event table.

Knows: their options, and how their results are printed.  Does not know what they do (`spark.archive`,
`spark.table.store`).

Invariant: SIGTERM ends an archive after the commit that is under way.
"""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncclick as click
import attrs

from distkv.cli.jobs.running import ProgressLine, TableFolder, on_spark, read_count, read_seconds
from distkv.cli.output import Form, complain, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.model.path import Path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command("archive")
@click.option("--to", "directory", required=True, metavar="DIR", type=TableFolder(), help="The event table.")
@click.option("--once", is_flag=True, help="End after everything that is held now.")
@click.option("--every", "every", metavar="S", default="5", show_default=True, help="Commit every S seconds.")
@click.option("--path", "path", metavar="PATH", default=":", help="Only changes at and below PATH.")
@click.option("--max-rows", "max_rows", metavar="N", default="1000000", show_default=True,
              help="Commit at most N events at once.")  # fmt: skip
@output_option
@click.pass_obj
def archive_command(
    session: CliSession, directory: str, once: bool, every: str, path: str, max_rows: str, form: str | None
) -> Job:
    """Write all events of the fleet into the event table DIR, exactly once, until SIGTERM.

    Overwritten values are included, as far as a node has them; content that no node has is counted as a gap. After a
    kill, the next run continues from there.
    """
    place, every_s = Path.parse(path), read_seconds("--every", every)
    count_max = read_count("--max-rows", max_rows)
    return partial(_archive, session, directory, once, every_s, place, count_max, Form(form) if form else session.form)


@click.command("files")
@click.argument("directory", metavar="DIR", type=TableFolder())
@click.pass_obj
def files_command(_: CliSession, directory: str) -> Job:
    """List the files of the event table DIR as of its last commit, one per line."""
    return partial(_files, directory)


# -- what they do -------------------------------------------------------------------------------------------------


def _archive(
    session: CliSession, directory: str, once: bool, every_s: float, path: Path, max_rows: int, form: Form
) -> None:
    progress = ProgressLine()

    def run(spark: SparkSession) -> Any:
        from distkv.spark.archive import Stopping, Wishes, archive, archive_once

        wishes, stopping = Wishes(session.addresses, path, max_rows), Stopping()
        signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.stop())
        if once:
            return archive_once(spark, directory, wishes, stopping=stopping, tell=progress.tell)
        return archive(spark, directory, wishes, stopping=stopping, every_s=every_s, tell=progress.tell, warn=complain)

    found = on_spark(session, run)
    progress.end()
    words = (
        f"{found.events} events archived, {found.gaps} gaps, {found.filled} filled; commit {found.commit}: "
        f"{found.total} events and {found.total_gaps} gaps in all; {found.seconds:.1f} s"
    )
    print_result(words if form is Form.TEXT else attrs.asdict(found), form)


def _files(directory: str) -> None:
    from distkv.spark.table.snapshot import read_table

    with read_table(directory) as table:
        for file in table.files():
            click.echo(file)
