"""`distkv client members`: who is in the group of the transport, as one node believes.

Knows: its options and what it prints.  Does not know the client protocol, nor who finds out who is there.

Invariant: with --follow each change that was there when the node was asked is printed once; what came and went between
two questions is not seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

import asyncclick as click

from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.text.display import table, visible, word
from distkv.text.moment import utc
from distkv.wire.fields import read_list, read_map, read_time

HEADS: Final = ("NODE", "STATE", "ADDRESS", "SINCE")
EVERY_S: Final = 0.2
"""How often the node is asked while changes are followed."""

MemberMap: TypeAlias = Mapping[str, object]


@click.command("members")
@click.option("--follow", is_flag=True, help="Then print a line for each change, until Ctrl-C.")
@output_option
@click.pass_obj
def members_command(session: CliSession, follow: bool, form: str | None) -> Job:
    """Print the members of the network, as the node that is asked sees them; with the transport swim only.

    For each member: alive, suspect (it did not answer, and may be dead), dead, or left (it said so), its address, and
    since when.
    """
    return partial(_members, session, Form(form) if form else session.form, follows=follow)


def _members(session: CliSession, form: Form, *, follows: bool) -> None:
    with Client(session.addresses) as client:
        found = _ask(client)
        if form is Form.TEXT:
            print_items(table([HEADS, *map(_row, found)]), form)
        elif not follows:
            print_result(found, form)
        if follows:
            changes = _changes(client, () if form is not Form.TEXT else found)
            print_items(changes if form is not Form.TEXT else map(_line, changes), form)


def _ask(client: Client) -> list[MemberMap]:
    reply = client.request("get_members", is_read=True)
    return [read_map(one, "members") for one in read_list(reply.get("members"), "members")]


def _changes(client: Client, told: list[MemberMap] | tuple[()]) -> Iterator[MemberMap]:
    """Each member that is another one than when it was told last."""
    before = {one.get("node"): _key(one) for one in told}
    while True:
        for one in _ask(client):
            if before.get(one.get("node")) != _key(one):
                before[one.get("node")] = _key(one)
                yield one
        time.sleep(EVERY_S)


def _key(member: MemberMap) -> tuple[object, ...]:
    return member.get("state"), member.get("addr")


def _row(member: MemberMap) -> tuple[str, ...]:
    since = utc(read_time(member.get("since"), "since"))
    return word(member.get("node")), word(member.get("state")), word(member.get("addr")), since


def _line(member: MemberMap) -> str:
    node, state, addr, since = _row(member)
    return visible(f"{since} {node} {state} {addr}")
