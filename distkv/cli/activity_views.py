"""`distkv client activity who`: where clients are connected.

Knows: its options, and what it prints.  Does not know who is where.

Invariant: all users are named, page by page; nodes that do not name theirs are complained of.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.output import Form, complain, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.text.display import table, word
from distkv.wire.fields import read_flag, read_list, read_map

HEADS: Final = ("NODE", "CLIENTS", "ADDR")


@click.command("who")
@click.option("--names", is_flag=True, help="The users of all nodes, too, each once for each node.")
@output_option
@click.pass_obj
def who_command(session: CliSession, names: bool, form: str | None) -> Job:
    """Print how many clients each node has, and where its listener is."""
    return partial(_who, session, Form(form) if form else session.form, names=names)


def _who(session: CliSession, form: Form, *, names: bool) -> None:
    with Client(session.addresses) as client:
        found = _all_names(client) if names else client.request("activity_who", is_read=True)
    if form is not Form.TEXT:
        print_result(found, form)
        return
    nodes = [read_map(one, "nodes") for one in read_list(found.get("nodes"), "nodes")]
    rows = [[word(str(one.get(name.lower()))) for name in HEADS] for one in nodes]
    print_items(table([HEADS, *rows]), form)
    for node, some in read_map(found.get("names", {}), "names").items():
        print_items([f"{word(str(node))} {word(str(user))}" for user in read_list(some, "names")], form)


def _all_names(client: Client) -> Mapping[str, object]:
    """The nodes, and the users of all of them, page by page."""
    users, away = dict[str, list[str]](), dict[str, None]()
    after, more = "", True
    nodes: object = []
    while more:
        page = client.request("activity_who", {"names": True, "after": after}, is_read=True)
        nodes, last = page.get("nodes"), after
        for node, some in read_map(page.get("names", {}), "names").items():
            found = [str(user) for user in read_list(some, "names")]
            users.setdefault(str(node), []).extend(found)
            last = f"{node} {found[-1]}" if found else last
        away |= dict.fromkeys(map(str, read_list(page.get("away", []), "away")))
        more = read_flag(page, "more") and last > after
        after = last
    if away:
        complain(f"these nodes do not say who is there: {', '.join(away)}")
    return {"nodes": nodes, "names": users, **({"away": [*away]} if away else {})}
