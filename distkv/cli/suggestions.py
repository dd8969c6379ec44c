"""What a shell is offered for a word that is not finished: live paths, keys of settings, sources of logs.

Knows: how the text of an unfinished path is cut, and that the node knows the rest.  Does not know shells, nor how
they ask (`completion`).  The library calls these functions with what was typed before; they cannot be coroutines.
What they need is loaded when they are called: commands name them, and most runs of a command complete nothing.

Invariant: when nothing can be offered, for whatever reason, nothing is: no error, no output, and no long wait.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import asyncclick as click

from distkv.cli.session import read_addresses
from distkv.errors import DistkvError
from distkv.model.path import ROOT, Path

if TYPE_CHECKING:
    from asyncclick.shell_completion import CompletionItem

    from distkv.client.blocking import Client

PATIENCE_S: Final = 1.0
"""How long somebody who pressed a key waits: for the connections to all addresses together, then for the answer."""
LISTED_MAX: Final = 1000
"""How many names are looked at: a shell would not show more."""


def suggest_paths(context: click.Context, _: click.Parameter, word: str) -> list[CompletionItem]:
    """The paths that begin with `word`, up to the end of the name that it ends in, as far as they lead to a value.

    A path with more below it comes with a dot. Itself it is offered when it has a value, or when the command is about
    whole trees.
    """
    wants_trees = bool(context.params.get("recursive"))
    return _paths(context, word, wants_trees=wants_trees)


def suggest_trees(context: click.Context, _: click.Parameter, word: str) -> list[CompletionItem]:
    """As `suggest_paths`, for a command that is always about a whole tree."""
    return _paths(context, word, wants_trees=True)


def suggest_settings(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem]:
    """The keys of the configuration, as `-C` takes them; their values are up to the user."""
    from distkv.cli.settings import known_settings

    return [offer(f"{key}=", is_open=True) for key in known_settings() if key.startswith(word)]


def suggest_log_levels(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem]:
    """SRC= and then SRC=LEVEL, as --log takes them."""
    from distkv.cli.logs import LEVEL_NAMES, SOURCES

    source, equals, _level = word.partition("=")
    found = [f"{source}={level}" for level in LEVEL_NAMES] if equals else [f"{source}=" for source in SOURCES]
    return [offer(text, is_open=not equals) for text in found if text.startswith(word)]


def asking_client(context: click.Context) -> Client:
    """A connection to the node that the words before name, for as long as somebody who pressed a key waits.

    Raises:
        SettingsError: they name none.
    """
    from distkv.client.blocking import Client

    group = context.parent
    while group is not None and "hosts" not in group.params:
        group = group.parent
    options = group.params if group else {}
    addresses = read_addresses(
        options.get("hosts") or (), options.get("port"), os.environ.get("DISTKV_HOST"), os.environ.get("DISTKV_PORT")
    )
    return Client(addresses, connect_s=PATIENCE_S / len(addresses), reply_s=PATIENCE_S)


def offer(value: str, *, is_open: bool = False) -> CompletionItem:
    """`is_open`: more belongs to the word, so no space follows."""
    from asyncclick.shell_completion import CompletionItem

    return CompletionItem(value, is_open=is_open)


# -- inside -------------------------------------------------------------------------------------------------------


def _paths(context: click.Context, word: str, *, wants_trees: bool) -> list[CompletionItem]:
    at = _name_begin(word)
    head, begun = word[:at], word[at:]
    try:
        parent = Path.parse(head[:-1]) if head else ROOT
        with asking_client(context) as client:
            # Of many names those that come before `begun` are not asked for. Only text has a text form without a colon.
            after = begun[:-1] if begun and ":" not in begun else None
            listed = client.list(parent, limit=LISTED_MAX, after=after)
    except DistkvError:
        return []
    found = [offer(word)] if word == str(ROOT) else []
    for one in listed:
        text = str(Path([one.name]))
        # What cannot be seen cannot be chosen, and might steer the terminal.
        if text.startswith(begun) and text.isprintable():
            if one.has_value or wants_trees:
                found.append(offer(head + text))
            if one.children:
                found.append(offer(f"{head}{text}.", is_open=True))
    return found


def _name_begin(word: str) -> int:
    """Where the last name of a path begins: behind the last dot that no colon escapes."""
    begin, at = 0, 0
    while at < len(word):
        if word[at] == ".":
            begin = at + 1
        at += 2 if word[at] == ":" else 1
    return begin
