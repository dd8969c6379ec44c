"""`distkv pipeline compact`: fewer and larger files in an event table.

Knows: its options, and how its result is printed.  Does not know what it does (`spark.compact`).

Invariant: a table of which nothing was gained is said to be as it was.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import asyncclick as click
import attrs

from distkv.cli.jobs.running import ProgressLine, TableFolder, on_spark, read_count, read_seconds
from distkv.cli.output import Form, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.text.moment import read_moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_MAX: Final = 1_000_000
"""As `spark.compact.FILE_ROWS_MAX`, which is loaded when the job is carried out."""


@click.command("compact")
@click.argument("directory", metavar="DIR", type=TableFolder())
@click.option("--rows", "rows", metavar="N", default="250000", show_default=True,
              help="The target number of events in a file, 1 to 1000000.")  # fmt: skip
@click.option("--forget", "forget", metavar="TIME", help="Drop also changes that were overwritten before TIME.")
@click.option("--keep", "keep", metavar="S", default="3600", show_default=True,
              help="Keep replaced files for S seconds, for those who read them; 0: not at all.")  # fmt: skip
@output_option
@click.pass_obj
def compact_command(
    session: CliSession, directory: str, rows: str, forget: str | None, keep: str, form: str | None
) -> Job:
    """Merge the small files of the event table DIR, for faster reading.

    TIME is in seconds since 1970, or a date such as 2026-11-23T10:00:00+00:00. After --forget, the table can no longer
    show moments before TIME; it can show all later ones.
    """
    size = read_count("--rows", rows, ROWS_MAX)
    before_s = None if forget is None else read_moment(forget)
    keep_s = 0.0 if keep == "0" else read_seconds("--keep", keep)
    return partial(_compact, session, directory, size, before_s, keep_s, Form(form) if form else session.form)


# -- what it does -------------------------------------------------------------------------------------------------


def _compact(
    session: CliSession, directory: str, rows: int, before_s: float | None, keep_s: float, form: Form
) -> None:
    progress = ProgressLine()

    def run(spark: SparkSession) -> Any:
        from distkv.spark.compact import compact

        return compact(spark, directory, rows=rows, forget=before_s, keep_s=keep_s, tell=progress.tell)

    found = on_spark(session, run)
    progress.end()
    if found.files == found.files_before and not found.forgotten:
        words = f"nothing to do: {found.files} files with {found.rows} events"
    else:
        words = (
            f"{found.files_before} files became {found.files}, with {found.rows} events; {found.forgotten} events "
            "forgotten"
        )
    print_result(words if form is Form.TEXT else attrs.asdict(found), form)
