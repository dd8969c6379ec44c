"""`distkv client topic list`, `show`, `set` and `drop`: what there is, for people and operators.

Knows: their options and what they print.  Does not know what a producer or a subscriber keeps.

Invariant: all names of a list are printed, page by page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.output import Form, complain, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.topic import read_topic_name, suggest_topics
from distkv.client.blocking import Client
from distkv.text.display import table, word
from distkv.text.moment import utc
from distkv.wire.fields import read_flag, read_list, read_map, read_time
from distkv.wire.topic_requests import COPIES_MAX

HEADS: Final = ("TOPIC", "OWNER", "COPIES", "MESSAGES", "BYTES")
WAITING: Final = ("SUBSCRIBER", "WAITING", "SINCE")


@click.command("list")
@click.argument("prefix", default="", shell_complete=suggest_topics)
@output_option
@click.pass_obj
def list_command(session: CliSession, prefix: str, form: str | None) -> Job:
    """Print the topics; with PREFIX those whose names begin with it.

    For each: the node that owns it, how many nodes have a copy, how many messages it has, and their bytes. A message
    counts its value and 512 bytes.
    """
    return partial(_list, session, read_topic_name(prefix, "PREFIX") if prefix else "", _chosen(session, form))


def _list(session: CliSession, prefix: str, form: Form) -> None:
    with Client(session.addresses) as client:
        items = list(_pages(client, prefix))
    if form is not Form.TEXT:
        print_result(items, form)
        return
    rows = [(word(item.get("topic")), *[str(item.get(name.lower())) for name in HEADS[1:]]) for item in items]
    print_items(table([HEADS, *rows]), form)


@click.command("show")
@click.argument("topic", shell_complete=suggest_topics)
@click.option("--producers", is_flag=True, help="Also name the producers.")
@output_option
@click.pass_obj
def show_command(session: CliSession, topic: str, producers: bool, form: str | None) -> Job:
    """Print what there is to see of TOPIC: where its copies are, what it keeps, who waits for how much.

    Copies with the same content have the same digest. As long as nodes are waited for, messages stay that every
    subscriber had.
    """
    return partial(_show, session, read_topic_name(topic), producers, _chosen(session, form))


def _show(session: CliSession, topic: str, producers: bool, form: Form) -> None:
    with Client(session.addresses) as client:
        shown = client.request("topic_show", {"topic": topic}, is_read=True)
        names = list(_producers(client, topic)) if producers else []
    if form is Form.TEXT:
        named = ["PRODUCER", *map(word, names)] if producers else []
        print_items([*_lines(shown), *table([WAITING, *_subscribers(shown)]), *named], form)
    else:
        print_result({**shown, "producer_names": names} if producers else shown, form)


@click.command("set")
@click.argument("topic", shell_complete=suggest_topics)
@click.option("--min-replicas", metavar="N", type=click.IntRange(1, COPIES_MAX), help="Refuse a put with fewer copies.")
@click.option("--keep-s", metavar="SECONDS", type=click.FloatRange(0), help="Drop older messages. 0: never.")
@click.option(
    "--keep-bytes",
    metavar="N",
    type=click.IntRange(0),
    help="Drop the oldest messages, so that these bytes are left. 0: never.",
)
@click.pass_obj
def set_command(
    session: CliSession, topic: str, min_replicas: int | None, keep_s: float | None, keep_bytes: int | None
) -> Job:
    """Set what TOPIC is kept by. What is not given stays as it is.

    A subscriber that still waited for what is dropped is told so with its next message.
    """
    given = {"min_replicas": min_replicas, "keep_s": keep_s, "keep_bytes": keep_bytes}
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        raise click.UsageError("give --min-replicas, --keep-s or --keep-bytes")
    return partial(_ask, session, "topic_set", {"topic": read_topic_name(topic), **fields})


@click.command("drop")
@click.argument("topic", shell_complete=suggest_topics)
@click.option("--subscriber", metavar="NAME", help="Only what the topic remembers of this subscriber.")
@click.option("--producer", metavar="NAME", help="Only what the topic remembers of this producer.")
@click.option("--force", is_flag=True, help="Also while nodes are away that may have more of it.")
@click.pass_obj
def drop_command(session: CliSession, topic: str, subscriber: str | None, producer: str | None, force: bool) -> Job:
    """Drop TOPIC with all its messages, its subscribers, and what it remembers of its producers.

    With --subscriber or --producer the topic stays, and only that name is forgotten. Do this only for names that never
    come back: to a producer that does, its old messages are new ones.

    Fails with 5 while a node is away that has a copy. With --force the topic is dropped all the same, and what only
    that node has is lost.
    """
    if subscriber is not None and producer is not None:
        raise click.UsageError("--subscriber and --producer are for two commands: leave one of them out")
    fields: dict[str, object] = {"topic": read_topic_name(topic)}
    if subscriber is not None:
        fields["subscriber"] = read_topic_name(subscriber, "--subscriber")
    if producer is not None:
        fields["producer"] = read_topic_name(producer, "--producer")
    return partial(_ask, session, "topic_drop", fields | ({"force": True} if force else {}))


def _ask(session: CliSession, action: str, fields: Mapping[str, object]) -> None:
    with Client(session.addresses) as client:
        client.request(action, fields)


# -- inside -------------------------------------------------------------------------------------------------------


def _chosen(session: CliSession, form: str | None) -> Form:
    return Form(form) if form else session.form


def _pages(client: Client, prefix: str) -> Iterator[Mapping[str, object]]:
    after, more = "", True
    away = dict[str, None]()
    while more:
        page = client.request("topic_list", {"prefix": prefix, "after": after}, is_read=True)
        items = [read_map(item, "items") for item in read_list(page.get("items"), "items")]
        yield from items
        away |= dict.fromkeys(map(str, read_list(page.get("away", []), "away")))
        more = read_flag(page, "more") and bool(items)
        after = str(items[-1].get("topic")) if items else ""
    if away:
        complain(f"these nodes do not answer, and their topics may be missing from this list: {', '.join(away)}")


def _producers(client: Client, topic: str) -> Iterator[str]:
    """The names of all, page by page."""
    after: str | None = ""
    while after is not None:
        page = client.request("topic_show", {"topic": topic, "producers": True, "after": after}, is_read=True)
        names = [str(name) for name in read_list(page.get("producer_names"), "producer_names")]
        yield from names
        after = names[-1] if names else None


def _lines(shown: Mapping[str, object]) -> Iterator[str]:
    """What there is to see of the topic itself."""
    followers = [str(name) for name in read_list(shown.get("followers"), "followers")]
    waits_for = [str(name) for name in read_list(shown.get("waits_for"), "waits_for")]
    yield f"owner: {shown.get('owner')}"
    yield f"followers: {', '.join(followers) or 'none'}"
    yield f"copies: {shown.get('copies')}, at least {shown.get('min_replicas')}"
    kept = f", {shown.get('kept')} of them for nodes that are away" if shown.get("kept") and waits_for else ""
    yield f"messages: {shown.get('messages')}, {shown.get('bytes')} bytes{kept}"
    yield f"producers: {shown.get('producers')}"
    for name, unit in (("keep_s", "s"), ("keep_bytes", "bytes")):
        if shown.get(name):
            yield f"{name}: {shown.get(name)} {unit}"
    if waits_for:
        yield f"waits for: {', '.join(waits_for)}"
    yield f"digest: {shown.get('digest')}"


def _subscribers(shown: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    for one in [read_map(each, "subscribers") for each in read_list(shown.get("subscribers"), "subscribers")]:
        oldest = utc(read_time(one["oldest"], "oldest")) if "oldest" in one else ""
        yield (word(one.get("subscriber")), str(one.get("left")), oldest)
