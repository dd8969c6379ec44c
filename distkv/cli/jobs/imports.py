"""`distkv pipeline import`: rows of files become values.

Knows: its options, and how its result is printed.  Does not know what it does (`spark.imports`).

Invariant: a row that was not written, and is kept nowhere, makes the job fail.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import asyncclick as click
import attrs

from distkv.cli import exits
from distkv.cli.jobs.running import on_spark
from distkv.cli.output import Form, complain, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.writes import read_ttl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@attrs.frozen
class ImportOptions:
    """What the command line says."""

    files: tuple[str, ...]
    form: str
    to: str
    value: str | None
    columns: tuple[str, ...]
    as_text: bool
    rejects: str | None
    ttl: float | None
    dry_run: bool


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--format", "files_form", required=True, type=click.Choice(["csv", "json", "parquet"]),
              help="The format of the files; CSV has a header, JSON an object per line.")  # fmt: skip
@click.option("--to", "to", required=True, metavar="TEMPLATE",
              help="The path of a row, such as site.{room}.{sensor}: the text of a column is one name.")  # fmt: skip
@click.option("--value", "value", metavar="COLUMN", help="The column that is the value.")
@click.option("--columns", "columns", metavar="A,B", help="Instead: the value is a map of these columns.")
@click.option("--string", "as_text", is_flag=True, help="CSV: everything is text; otherwise as in 'client set'.")
@click.option("--rejects", "rejects", metavar="DIR", type=click.Path(),
              help="An empty or missing folder for invalid rows, with reasons.")  # fmt: skip
@click.option("--ttl", "ttl", metavar="S", help="Values expire after S seconds.")
@click.option("--dry-run", is_flag=True, help="Write nothing, and count what would be written.")
@output_option
@click.pass_obj
def import_command(
    session: CliSession, files: tuple[str, ...], files_form: str, to: str, value: str | None, columns: str | None,
    as_text: bool, rejects: str | None, ttl: str | None, dry_run: bool, form: str | None,
) -> Job:  # fmt: skip
    """Write a value for each row of files, unless it is there already.

    If several rows have the same path, the last one counts. Without --rejects, an invalid row makes the exit code 1.
    """
    if (value is None) == (columns is None):
        raise click.UsageError("say what the value is: either --value COLUMN or --columns A,B")
    if as_text and files_form != "csv":
        raise click.UsageError("--string is for CSV: in other files values have their types")
    from distkv.spark.importing.templates import read_template

    read_template(to)
    seconds = None if ttl is None else read_ttl(ttl)
    names = () if columns is None else _names(columns)
    order = ImportOptions(files, files_form, to, value, names, as_text, rejects, seconds, dry_run)
    return partial(_import, session, order, Form(form) if form else session.form)


def _names(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if "" in found or len(set(found)) < len(found):
        raise click.UsageError(f"--columns is {text!r}: name each once, with commas")
    return found


# -- what they do -------------------------------------------------------------------------------------------------


def _import(session: CliSession, order: ImportOptions, form: Form) -> int:
    def run(spark: SparkSession) -> Any:
        from distkv.spark.importing.records import ImportForm
        from distkv.spark.imports import import_files

        return import_files(
            spark, order.files, ImportForm(order.form), order.to, session.addresses,
            value=order.value, columns=order.columns, as_text=order.as_text, ttl=order.ttl,
            rejects=order.rejects, dry_run=order.dry_run,
        )  # fmt: skip

    found = on_spark(session, run)
    is_lost = found.rejected > 0 and order.rejects is None
    if is_lost:
        complain(f"{found.first_reject} ({found.rejected} rejected rows; --rejects DIR keeps them all)")
    would = "to be " if order.dry_run else ""
    words = (
        f"{found.rows} rows: {found.written} {would}written, {found.same} the same already, "
        f"{found.rejected} rejected; {found.seconds:.1f} s"
    )
    counts = attrs.asdict(found, filter=lambda field, _: field.name != "first_reject")
    print_result(words if form is Form.TEXT else counts, form)
    return exits.FAILED if is_lost else exits.DONE
