"""`distkv client activity who`: where clients are connected.

Knows: its options, and what it prints.  Does not know who is where.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.text.display import table, word
from distkv.wire.fields import read_list, read_map

HEADS: Final = ("NODE", "CLIENTS", "ADDR")


@click.command("who")
@click.option("--names", is_flag=True, help="The users, too, each once for each node.")
@output_option
@click.pass_obj
def who_command(session: CliSession, names: bool, form: str | None) -> Job:
    """Print how many clients each node has, and where its listener is."""
    return partial(_who, session, Form(form) if form else session.form, names=names)


def _who(session: CliSession, form: Form, *, names: bool) -> None:
    with Client(session.addresses) as client:
        found = client.request("activity_who", {"names": True} if names else {}, is_read=True)
    if form is not Form.TEXT:
        print_result(found, form)
        return
    nodes = [read_map(one, "nodes") for one in read_list(found.get("nodes"), "nodes")]
    rows = [[word(str(one.get(name.lower()))) for name in HEADS] for one in nodes]
    print_items(table([HEADS, *rows]), form)
    users = read_map(found.get("names", {}), "names")
    for node, some in users.items():
        print_items([f"{word(str(node))} {word(str(user))}" for user in read_list(some, "names")], form)
