"""`distkv client aside`: what a node has set aside because it ended the node twice, and what is decided about it.

Knows: its options and what it prints.  Does not know the client protocol, nor what a decision does.

Invariant: a list that is empty is no failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import asyncclick as click

from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.text.display import visible, word
from distkv.text.moment import utc
from distkv.wire.fields import read_flag, read_list, read_map, read_time


@click.group("aside")
def aside_group() -> None:
    """Show what the node has set aside because it ended the node twice, and decide about it."""


@aside_group.command("list")
@output_option
@click.pass_obj
def list_command(session: CliSession, form: str | None) -> Job:
    """Print what the node has set aside, the oldest first.

    As text, each is a line: its ID (of a change NODE:TICK, else what it was and of whom), the path of a change, when it
    ended the node the last time, the failure, and where in the program that was. While a change is set aside, the node
    lacks it, and 'state --wait converged' fails.
    """
    return partial(_list, session, Form(form) if form else session.form)


def _list(session: CliSession, form: Form) -> None:
    with Client(session.addresses) as client:
        found = read_asides(client.state())
    if form is Form.TEXT:
        print_items(map(_line, found), form)
    else:
        print_result(found, form)


@aside_group.command("retry")
@click.argument("id")
@click.pass_obj
def retry_command(session: CliSession, id: str) -> Job:
    """Have ID taken when it comes again, after an upgrade for example.

    If it fails once more, the node ends once more, and sets it aside again.
    """
    return partial(_retry, session, id)


def _retry(session: CliSession, id: str) -> None:
    with Client(session.addresses) as client:
        client.retry_aside(id)


@aside_group.command("drop")
@click.argument("id")
@click.pass_obj
def drop_command(session: CliSession, id: str) -> Job:
    """Do without the change ID: what this node has at its path replaces it on all nodes.

    If this node has no value there, the path is deleted. Then no node lacks the change any more.
    """
    return partial(_drop, session, id)


def _drop(session: CliSession, id: str) -> None:
    with Client(session.addresses) as client:
        client.drop_aside(id)


def read_asides(state: Mapping[str, object]) -> list[dict[str, object]]:
    """What a `get_state` tells of it; an older release tells of nothing.

    Raises:
        DecodeError: it is none.
    """
    found = list[dict[str, object]]()
    for item in read_list(state.get("aside", []), "aside"):
        one = read_map(item, "aside")
        texts = {name: str(one.get(name)) for name in ("id", "path", "error", "at", "release")}
        times = {name: read_time(one.get(name), name) for name in ("first", "last")}
        found.append({**texts, **times, "missing": read_flag(one, "missing")})
    return found


def _line(one: Mapping[str, object]) -> str:
    path = word(str(one["path"])) if one["path"] else "-"
    when, error = utc(read_time(one["last"], "last")), visible(str(one["error"]))
    return f"{word(str(one['id']))} {path} {when} {one['at']} {error}"
