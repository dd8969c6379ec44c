"""`distkv client history`, and what `get --at` does: the past of one path.

Knows: the options and what is printed.  Does not know the client protocol.

Invariant: what is printed is what one node saw, in the order in which it saw it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import asyncclick as click

from distkv.cli.entry import fence_map, fence_words
from distkv.cli.output import Form, print_items
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.suggestions import suggest_paths
from distkv.client.blocking import Client
from distkv.client.questions import Past
from distkv.errors import NotFoundError
from distkv.model.event import tick_text
from distkv.model.path import Path
from distkv.text.display import word
from distkv.text.moment import utc


@click.command("history")
@click.argument("path", shell_complete=suggest_paths)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Print at most N changes.")
@output_option
@click.pass_obj
def history_command(session: CliSession, path: str, limit: int | None, form: str | None) -> Job:
    """Print the changes of PATH that reached the node, the newest first.

    As text, each is a line: when it arrived at this node, when its writer says that it was written, which change it
    was, and the value, with the fence of a token if it was written under one. 'lost' marks a change that arrived when a
    higher one was there already.
    """
    return partial(_history, session, Path.parse(path), limit, Form(form) if form else session.form)


def _history(session: CliSession, path: Path, limit: int | None, form: Form) -> None:
    with Client(session.addresses) as client:
        count = print_items(_items(client, path, limit, form), form)
    if not count:
        raise NotFoundError(f"no change of {path} is known to this node")


def _items(client: Client, path: Path, limit: int | None, form: Form) -> Iterator[object]:
    for past in client.history(path, limit=limit):
        yield _line(past) if form is Form.TEXT else _map(past)


def _line(past: Past) -> str:
    value = ("expired" if past.is_expired else "deleted") if past.value is None else word(past.value)
    fence = fence_words(past.fence)
    lost = "" if past.won else "  (lost)"
    return f"{utc(past.arrived)} {utc(past.time)} {tick_text(*past.chain[0])} {value}{fence and ' ' + fence}{lost}"


def _map(past: Past) -> dict[str, object]:
    return {
        **({} if past.value is None else {"value": past.value}),
        **({"expired": True} if past.is_expired else {}),
        "chain": [tick_text(node, tick) for node, tick in past.chain],
        "tock": past.tock,
        "time": past.time,
        "arrived": past.arrived,
        "position": past.position,
        "won": past.won,
        **fence_map(past.fence),
    }
