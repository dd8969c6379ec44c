"""`distkv client activity account`: the users who may log in to listeners.

Knows: its commands, their options and what they print.  Does not know what is kept of a secret.

Invariant: all names of a list are printed, page by page.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import asyncclick as click

from distkv.cli.commands import Commands
from distkv.cli.output import Form, complain, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.errors import DistkvError, SettingsError
from distkv.text.display import word
from distkv.wire.account_requests import NAME_CHARS_MAX, is_username
from distkv.wire.fields import read_flag, read_list

if TYPE_CHECKING:
    from asyncclick.shell_completion import CompletionItem

COMMANDS = Commands({"list": "account:list_command", "remove": "account:remove_command"})


def suggest_accounts(context: click.Context, _: click.Parameter, word: str) -> list[CompletionItem]:
    """The accounts whose names begin with `word`."""
    from distkv.cli.suggestions import LISTED_MAX, asking_client, offer

    try:
        with asking_client(context) as client:
            page = client.request("account_list", {"prefix": word, "limit": LISTED_MAX}, is_read=True)
        names = [str(name) for name in read_list(page.get("names"), "names")]
    except DistkvError:
        return []
    return [offer(name) for name in names if name.startswith(word) and name.isprintable()]


@click.group("account", commands=COMMANDS)
def account_group() -> None:
    """Accounts: who may log in to the listeners of a network.

    They are not users of the nodes: every node takes these commands.
    """


@click.command("list")
@click.argument("prefix", default="", shell_complete=suggest_accounts)
@output_option
@click.pass_obj
def list_command(session: CliSession, prefix: str, form: str | None) -> Job:
    """Print the names of the accounts; with PREFIX those that begin with it."""
    return partial(_list, session, _username(prefix, "PREFIX") if prefix else "", Form(form) if form else session.form)


def _list(session: CliSession, prefix: str, form: Form) -> None:
    with Client(session.addresses) as client:
        names = list(_pages(client, prefix))
    if form is Form.TEXT:
        print_items(map(word, names), form)
    else:
        print_result(names, form)


@click.command("remove")
@click.argument("name", shell_complete=suggest_accounts)
@click.pass_obj
def remove_command(session: CliSession, name: str) -> Job:
    """Remove the account NAME: nobody logs in with its secret any more.

    Whoever is connected stays. The name is free for the next one who registers it.
    """
    return partial(_remove, session, _username(name, "NAME"))


def _remove(session: CliSession, name: str) -> None:
    with Client(session.addresses) as client:
        client.request("account_remove", {"name": name})


# -- inside -------------------------------------------------------------------------------------------------------


def _username(text: str, what: str) -> str:
    if not is_username(text):
        says = f"give text of 1 to {NAME_CHARS_MAX} characters without control characters"
        raise SettingsError(f"{what} is {text[:40]!r}: {says}")
    return text


def _pages(client: Client, prefix: str) -> Iterator[str]:
    after, more = "", True
    doubled = list[str]()
    while more:
        page = client.request("account_list", {"prefix": prefix, "after": after}, is_read=True)
        names = [str(name) for name in read_list(page.get("names"), "names")]
        yield from names
        doubled += map(str, read_list(page.get("doubled", []), "doubled"))
        more = read_flag(page, "more") and bool(names)
        after = names[-1] if names else ""
    if doubled:
        complain(f"registered twice, so that one of the two secrets does not log in any more: {', '.join(doubled)}")
