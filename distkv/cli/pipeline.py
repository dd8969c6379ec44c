"""`distkv pipeline`: the group of jobs on Spark over all that happened in the fleet.

Knows: the options of the group, and in which module each job is (`distkv.cli.jobs`).  Does not know any of them.

Invariant: no job begins before its whole command line was understood.
"""

from __future__ import annotations

import os
from typing import Final

import asyncclick as click

from distkv.cli.commands import Commands
from distkv.cli.session import CliSession, SparkPlace, read_addresses

COMMANDS: Final = Commands(
    {
        "archive": "jobs.tables:archive_command",
        "files": "jobs.tables:files_command",
        "settle": "jobs.settle:settle_command",
        "compact": "jobs.compact:compact_command",
        "asof": "jobs.moments:asof_command",
        "restore": "jobs.moments:restore_command",
        "export": "jobs.export:export_command",
        "audit": "jobs.audit:audit_command",
        "report": "jobs.report:report_command",
        "import": "jobs.imports:import_command",
    }
)


@click.group("pipeline", commands=COMMANDS)
@click.option(
    "-h", "--host", "hosts", multiple=True, metavar="HOST",
    help="The nodes: HOST or HOST:PORT; several, also with commas between them, are asked in turn for what "
    "others lack. [env: DISTKV_HOST] [default: 127.0.0.1]",
)  # fmt: skip
@click.option("-p", "--port", metavar="PORT", help="Their port. [env: DISTKV_PORT] [default: 27586]")
@click.option("--master", default="local[*]", metavar="URL", show_default=True, help="Where Spark runs.")
@click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.pass_context
def pipeline(
    context: click.Context, hosts: tuple[str, ...], port: str | None, master: str, conf: tuple[str, ...]
) -> None:
    """Archive all changes of the fleet, and work with them, on Spark.

    Needs an extra, pip install 'distkv[spark]', and Java 17.
    """
    session: CliSession = context.obj
    session.addresses = read_addresses(hosts, port, os.environ.get("DISTKV_HOST"), os.environ.get("DISTKV_PORT"))
    session.spark = SparkPlace(master, dict(map(_setting, conf)))


# -- inside -------------------------------------------------------------------------------------------------------


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--conf is {text!r}: write KEY=VALUE, such as spark.executor.memory=2g")
    return key, value
