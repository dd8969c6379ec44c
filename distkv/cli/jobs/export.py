"""`distkv pipeline export`: values into files.

Knows: its options, and how its result is printed.  Does not know what it does (`spark.export`).

Invariant: a moment is one of a table; the live tree has only now.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import asyncclick as click
import attrs

from distkv.cli.jobs.moments import CutOptions, moment_options
from distkv.cli.jobs.running import TableFolder, on_spark
from distkv.cli.output import Form, complain, print_result
from distkv.cli.session import CliSession, Job, output_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command("export")
@click.option("--to", "to", required=True, metavar="DIR", type=click.Path(), help="An empty or missing folder.")
@click.option("--format", "files", required=True, type=click.Choice(["csv", "json", "parquet"]),
              help="The format of the files.")  # fmt: skip
@click.option("--table", "table", metavar="DIR", type=TableFolder(),
              help="The tree as of a moment of this event table; otherwise the live tree.")  # fmt: skip
@moment_options
@output_option
@click.pass_obj
def export_command(
    session: CliSession, to: str, files: str, table: str | None, moment: CutOptions, form: str | None
) -> Job:
    """Write values and their paths into files, of the live tree or as of a moment."""
    if table is not None:
        moment.check()
    elif moment.is_chosen:
        raise click.UsageError("a moment is one of an event table: name it with --table DIR")
    return partial(_export, session, to, files, table, moment, Form(form) if form else session.form)


# -- what they do -------------------------------------------------------------------------------------------------


def _export(session: CliSession, to: str, files: str, table: str | None, moment: CutOptions, form: Form) -> None:
    def run(spark: SparkSession) -> Any:
        from distkv.spark.export import ExportForm, export

        where = {"addresses": session.addresses} if table is None else {"table": table, "cut": moment.cut()}
        return export(spark, to, ExportForm(files), **where, path=moment.path, allow_gaps=moment.allow_gaps)

    found = on_spark(session, run)
    found = attrs.evolve(found, unknown=(*found.unknown, *moment.unasked))
    for line in found.unknown:
        complain(line)
    print_result(f"{found.rows} values written" if form is Form.TEXT else attrs.asdict(found), form)
