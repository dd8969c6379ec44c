"""`distkv pipeline report`: a page about an event table.

Knows: its options, and how its result is printed.  Does not know what the page says (`spark.report`).

Invariant: that no node answers is said in the page, and is no failure.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import asyncclick as click
import attrs

from distkv.cli.jobs.running import TableFolder, on_spark
from distkv.cli.output import Form, print_result
from distkv.cli.session import CliSession, Job, output_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command("report")
@click.argument("directory", metavar="DIR", type=TableFolder())
@click.option("--to", "to", required=True, metavar="FILE", type=click.Path(),
              help="The page, such as report.html; an old one is replaced.")  # fmt: skip
@output_option
@click.pass_obj
def report_command(session: CliSession, directory: str, to: str, form: str | None) -> Job:
    """Write a page about the event table DIR: rates, hot paths, sizes, conflicts, gaps, and replication lag.

    The page is one file that needs no network. The lag comes from the nodes themselves; if none of them answers, the
    page says so.
    """
    return partial(_report, session, directory, to, Form(form) if form else session.form)


# -- what it does -------------------------------------------------------------------------------------------------


def _report(session: CliSession, directory: str, to: str, form: Form) -> None:
    def run(spark: SparkSession) -> Any:
        from distkv.spark.report import report

        return report(spark, directory, to, addresses=session.addresses)

    found = on_spark(session, run)
    lag = "no node told of lag" if found.lag is None else f"lag {found.lag:.3f} s"
    words = (
        f"{found.events} events of {found.writers} writers on {found.paths} paths, {found.conflicts} conflicts "
        f"({found.open} open), {found.gaps} gaps, {lag}; written to {found.file}"
    )
    print_result(words if form is Form.TEXT else attrs.asdict(found), form)
