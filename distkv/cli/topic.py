"""`distkv client topic`: publish and subscribe.

Knows: where its commands are, and how the names of a topic, a subscriber and a producer are written.  Does not know
what they do.

Invariant: what is none of these is refused before anything connects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncclick as click

from distkv.cli.commands import Commands
from distkv.client.arguments import shown
from distkv.errors import DecodeError, DistkvError, SettingsError
from distkv.wire.topic_fields import NAME_BYTES_MAX, read_name

if TYPE_CHECKING:
    from asyncclick.shell_completion import CompletionItem

COMMANDS = Commands(
    {
        "subscribe": "topic_messages:subscribe_command",
        "unsubscribe": "topic_messages:unsubscribe_command",
        "put": "topic_put:put_command",
        "get": "topic_messages:get_command",
        "tail": "topic_messages:tail_command",
        "list": "topic_views:list_command",
        "show": "topic_views:show_command",
        "set": "topic_views:set_command",
        "drop": "topic_views:drop_command",
    }
)


@click.group("topic", commands=COMMANDS)
def topic_group() -> None:
    """Topics: put messages, and get each of them once.

    Every node takes these commands. A topic begins with its first message or subscriber.
    """


def read_topic_name(text: str, what: str = "TOPIC") -> str:
    """The name of a topic, a subscriber or a producer; `what` it is called on the command line.

    Raises:
        SettingsError: none of these can have it.
    """
    try:
        return read_name(text, what)
    except DecodeError:
        says = f"give text of 1 to {NAME_BYTES_MAX} bytes without control characters"
        raise SettingsError(f"{what} is {shown(text)}: {says}") from None


def suggest_topics(context: click.Context, _: click.Parameter, word: str) -> list[CompletionItem]:
    """The topics whose names begin with `word`, as far as the node that the words before name knows them."""
    from distkv.cli.suggestions import LISTED_MAX, asking_client, offer
    from distkv.wire.fields import read_list, read_map

    try:
        with asking_client(context) as client:
            page = client.request("topic_list", {"prefix": word, "limit": LISTED_MAX}, is_read=True)
        items = [read_map(item, "items") for item in read_list(page.get("items"), "items")]
    except DistkvError:
        return []
    names = [str(item.get("topic")) for item in items]
    return [offer(name) for name in names if name.startswith(word) and name.isprintable()]
