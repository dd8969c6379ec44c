"""`distkv client list`, and what `get -r` does: whole trees.

Knows: their options and what they print.  Does not know the client protocol.

Invariant: what is printed of a tree is printed while it arrives; a command that finds nothing ends with 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import asyncclick as click

from distkv.cli.entry import shown
from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.suggestions import suggest_trees
from distkv.client.blocking import Client
from distkv.client.names import Listed
from distkv.errors import BadPathError, DamagedError, NotFoundError, SettingsError
from distkv.model.path import NAMES_MAX, Path
from distkv.text.display import visible, word


@click.command("list")
@click.argument("path", default=":", shell_complete=suggest_trees)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Print at most N names.")
@click.option("--after", metavar="NAME", help="Print only names that come after NAME, such as the last one printed.")
@output_option
@click.pass_obj
def list_command(session: CliSession, path: str, limit: int | None, after: str | None, form: str | None) -> Job:
    """Print the names directly below PATH (the root) that lead to a value.

    As text, a name with more below it ends with a dot. The other forms show for each name whether it has a value, and
    how many names are directly below it.
    """
    where, name = Path.parse(path), None if after is None else _read_name(after)
    return partial(_list, session, where, limit, name, Form(form) if form else session.form)


def _read_name(text: str) -> Path:
    """What --after says, also with the dot of a name with more below it.

    Raises:
        SettingsError: it is no name.
    """
    for name in (text, text.removesuffix(".")):
        with suppress(BadPathError):
            path = Path.parse(name)
            if len(path) == 1:
                return path
    raise SettingsError(f"--after is {text!r}: give one name, as 'distkv client list' prints it")


def _list(session: CliSession, path: Path, limit: int | None, after: Path | None, form: Form) -> None:
    with Client(session.addresses) as client:
        try:
            names = client.list(path, limit=limit, after=after)
        except DamagedError as error:
            _print_names(error.found, form)
            raise
        if not names and after is None and client.get(path) is None:
            raise NotFoundError(f"{path} has no value, and nothing is below it")
    _print_names(names, form)


def _print_names(names: Sequence[Listed], form: Form) -> None:
    if form is not Form.TEXT:
        print_result([[listed.name, listed.has_value, listed.children] for listed in names], form)
    else:
        print_items((f"{visible(Path([listed.name]))}{'.' if listed.children else ''}" for listed in names), form)


def read_depth(text: str | None) -> int | None:
    """What --depth says; None: any.

    Raises:
        SettingsError: it is no number from 0 up.
    """
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise SettingsError(f"--depth is {text!r}: it must be a number, 0 or more")
    return min(int(text[:9]), NAMES_MAX)


def print_tree(session: CliSession, path: Path, depth: int | None, meta: bool, form: Form) -> None:
    """`get -r`."""
    with Client(session.addresses) as client:
        count = print_items(_items(client, path, depth, meta, form), form)
    if not count:
        raise NotFoundError(f"{path} has no value, and nothing is below it")


def _items(client: Client, path: Path, depth: int | None, meta: bool, form: Form) -> Iterator[object]:
    for where, entry in client.get_tree(path, max_depth=depth):
        item = {"path": str(where), **shown(entry, form)} if meta else {"path": str(where), "value": entry.value}
        yield _line(item) if form is Form.TEXT else item


def _line(item: dict[str, object]) -> str:
    """`path: value`, in one line whatever the value is; then what else is known."""
    rest = " ".join(f"{name}={word(value)}" for name, value in item.items() if name not in ("path", "value"))
    return f"{visible(item['path'])}: {word(item['value'])}{rest and '  ' + rest}"
