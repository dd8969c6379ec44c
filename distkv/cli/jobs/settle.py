"""`distkv pipeline settle`: a person decides that gaps stop nobody any more.

Knows: its options, and how its result is printed.  Does not know what a gap does to a result (`spark.asof`).

Invariant: what is settled is written down with who decided it, when and why; no event is changed.
"""

from __future__ import annotations

import getpass
import time
from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.jobs.running import TableFolder
from distkv.cli.output import Form, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.errors import RequestError
from distkv.model.tick_ranges import count, without

NOBODY: Final = "unknown"


@click.command("settle")
@click.argument("directory", metavar="DIR", type=TableFolder())
@click.option("--why", "why", required=True, metavar="TEXT", help="The reason, for those who read it later.")
@click.option("--who", "who", metavar="NAME", help="Who decides it; otherwise the name of your login.")
@click.option("--node", "nodes", multiple=True, metavar="NODE",
              help="Only gaps of this node; may be repeated.")  # fmt: skip
@output_option
@click.pass_obj
def settle_command(
    session: CliSession, directory: str, why: str, who: str | None, nodes: tuple[str, ...], form: str | None
) -> Job:
    """Accept the gaps that the event table DIR has now: jobs no longer stop at them, but name them in each result.

    The table keeps who decided it, when and why. 'archive' still asks for the content; if it comes, the gap is filled.
    """
    by = _login() if who is None else who
    for name, text in (("--who", by), ("--why", why)):
        if not (text.strip() and text.isprintable()):
            raise click.UsageError(f"{name} is {text!r}: write a line of text")
    return partial(_settle, directory, by, why, nodes, Form(form) if form else session.form)


# -- what it does -------------------------------------------------------------------------------------------------


def _settle(directory: str, who: str, why: str, nodes: tuple[str, ...], form: Form) -> None:
    from distkv.spark.table.contents import few
    from distkv.spark.table.manifest import GapDecision
    from distkv.spark.table.store import open_table

    with open_table(directory, network=None) as table:
        gaps = table.manifest.gaps
        if unknown := [node for node in nodes if node not in gaps]:
            having = f"these have some: {', '.join(gaps)}" if gaps else "no node has any"
            raise RequestError(f"{unknown[0]!r} has no gaps in this table; {having}")
        chosen = {node: ticks for node, ticks in gaps.items() if not nodes or node in nodes}
        fresh = without(chosen, table.manifest.settled_gaps)
        if fresh:
            table.note(decision=GapDecision(time.time(), who, why, fresh))
        settled = count(table.manifest.settled_gaps)
    counts = {"settled": count(fresh), "settled_in_all": settled, "gaps": count(gaps)}
    named = f" ({few(fresh)})" if fresh else ""
    words = f"{count(fresh)} gaps settled{named}; {settled} of {count(gaps)} gaps are settled now"
    print_result(words if form is Form.TEXT else counts, form)


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return NOBODY
