"""`distkv client get`: values out of a node.

Knows: its options and what it prints.  Does not know the client protocol, nor whole trees (`tree`).

Invariant: a command prints a result or fails with one line.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import asyncclick as click

from distkv.cli import tree
from distkv.cli.dashes import NumbersCommand
from distkv.cli.entry import shown
from distkv.cli.output import Form, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.suggestions import suggest_paths
from distkv.cli.values import read_aside, slashed
from distkv.client.blocking import Client
from distkv.errors import DistkvError, NotFoundError, SettingsError
from distkv.model.path import Path
from distkv.text.moment import read_moment, utc


@click.command("get", cls=NumbersCommand)
@click.argument("path", shell_complete=suggest_paths)
@click.option("-r", "--recursive", is_flag=True, help="Print all values at and below PATH.")
@click.option("--depth", metavar="N", help="With -r, go at most N names deep below PATH.")
@click.option("--at", metavar="TIME", help="The value on the node at this time; ISO 8601 (UTC), or seconds since 1970.")
@click.option(
    "-m", "--meta", is_flag=True, help="Show also which change made it, what that change knew, when, and its fence."
)
@click.option("--default", metavar="VALUE", help="Print this if there is no value, instead of failing with 3.")
@output_option
@click.pass_obj
def get_command(
    session: CliSession,
    path: str,
    recursive: bool,
    depth: str | None,
    meta: bool,
    at: str | None,
    default: str | None,
    form: str | None,
) -> Job:
    """Print the value of PATH.

    As text, scalars are printed plain and the rest as YAML; raw prints text and bytes as they are. With -r, each
    value is a line 'path: value', or as JSON a document per line.
    """
    wanted = Form(form) if form else session.form
    where = Path.parse(path)
    moment = None if at is None else read_moment(at)
    if recursive:
        if at is not None:
            raise SettingsError("--at is for one value: leave out -r, or --at")
        if default is not None:
            raise SettingsError("--default is for one value: leave out -r, or --default")
        return partial(tree.print_tree, session, where, tree.read_depth(depth), meta, wanted)
    if depth is not None:
        raise SettingsError("--depth is for whole trees: add -r, or leave it out")
    fallback = None if default is None else {"value": read_aside("--default", default)}
    return partial(_get, session, where, moment, meta, fallback, wanted)


def _get(
    session: CliSession, path: Path, at: float | None, meta: bool, fallback: dict[str, object] | None, form: Form
) -> None:
    with Client(session.addresses) as client:
        entry = client.get(path, at=at)
        found = fallback if entry is None else shown(entry, form)
        if found is None:
            raise NotFoundError(f"{path} {_why_missing(client, path, at)}")
    print_result({"path": str(path), **found} if meta else found["value"], form)


def _why_missing(client: Client, path: Path, at: float | None) -> str:
    """What the node knows of a path that has no value, as far as it can be asked."""
    import shlex

    if at is not None:
        return f"had no value at {utc(at)}, as far as this node knows"
    with suppress(DistkvError):
        for past in client.history(path, limit=1):
            if past.value is None:
                return f"has no value: it {'expired' if past.is_expired else 'was deleted'} at {utc(past.time)}"
        if client.list(path, limit=1):
            return f"has no value, but there are values below it: 'distkv client get -r {shlex.quote(str(path))}'"
    if meant := slashed(path):
        return f"has no value, and is one name: '.' stands between names, not '/'; did you mean {meant}?"
    return "has no value: set one with 'distkv client set', or ask with --default"
