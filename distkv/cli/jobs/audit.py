"""`distkv pipeline audit`: its argument, and how its result is printed.

Knows: the words of the result.  Does not know what is looked at (`spark.audit`).

Invariant: the result is one line on stdout; what is wrong is named on stderr.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import asyncclick as click
import attrs

from distkv.cli import exits
from distkv.cli.jobs.running import TableFolder, on_spark
from distkv.cli.output import Form, complain, print_result
from distkv.cli.session import CliSession, Job, output_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from distkv.spark.audit import Audited

_LINES: Final = ("silent", "told")
"""Fields that go to stderr."""


@click.command("audit")
@click.argument("directory", metavar="[DIR]", type=TableFolder(), required=False)
@output_option
@click.pass_obj
def audit_command(session: CliSession, directory: str | None, form: str | None) -> Job:
    """Compare the nodes with each other, and with the event table DIR, and read all files of the table.

    Name every node with -h. Changes under way are waited for. Problems are named on stderr, and then the exit code
    is 4.
    """
    return partial(_audit, session, directory, Form(form) if form else session.form)


# -- what it does -------------------------------------------------------------------------------------------------


def _audit(session: CliSession, directory: str | None, form: Form) -> int:
    def run(spark: SparkSession) -> Any:
        from distkv.spark.audit import audit

        return audit(spark, session.addresses, directory)

    found = on_spark(session, run)
    for line in (*found.silent, *found.told):
        complain(line)
    counts = {field: count for field, count in attrs.asdict(found).items() if field not in _LINES}
    print_result(_words(found) if form is Form.TEXT else counts, form)
    return exits.DONE if found.is_sound else exits.CONFLICT


def _words(found: Audited) -> str:
    nodes = (
        f"{'sound' if found.is_sound else 'not sound'}: {found.nodes} nodes, {found.differs} paths differ, "
        f"{found.missing} ticks missing, {found.lost} lost, {found.gaps} gaps"
    )
    if found.damaged is None:
        return nodes
    return (
        f"{nodes}; table: {found.doubles} doubles, {found.damaged} files damaged, {found.only_table} ticks only there, "
        f"{found.behind} behind"
    )
