"""`distkv client topic get`, `tail`, `subscribe` and `unsubscribe`: what a subscriber does.

Knows: their options and what they print.  Does not know what a subscriber keeps (`client.consuming`).

Invariant: a message is recorded as done when it was printed, and no earlier; what is recorded is not printed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.output import Form, check_stdout, complain, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.topic import read_topic_name, suggest_topics
from distkv.cli.topic_place import TopicAsking, asking_options, read_asking, read_count, read_seconds
from distkv.client.blocking_topic import WAIT_S, Consumer
from distkv.client.topic_handle import Message, gone_text
from distkv.errors import NotFoundError
from distkv.model.ranges import Ranges
from distkv.text.display import word
from distkv.wire.row import WAIT_S_MAX
from distkv.wire.topic_requests import PAGE_MAX

COUNT_MAX: Final = 999_999_999
_ID = click.option("--id", metavar="ID", required=True, help="Who subscribes; its state is a file of its own.")


@click.command("subscribe")
@click.argument("topic", shell_complete=suggest_topics)
@_ID
@asking_options
@click.pass_obj
def subscribe_command(
    session: CliSession, topic: str, id: str, state: str | None, timeout: str | None, tries: str | None
) -> Job:
    """Subscribe ID to TOPIC: each message that is put from now on is for it, too.

    Where it is subscribed already nothing changes. A topic that is not there begins.
    """
    return _job(session, read_asking(state, timeout, tries), topic, id, Consumer.subscribe)


@click.command("unsubscribe")
@click.argument("topic", shell_complete=suggest_topics)
@_ID
@asking_options
@click.pass_obj
def unsubscribe_command(
    session: CliSession, topic: str, id: str, state: str | None, timeout: str | None, tries: str | None
) -> Job:
    """End the subscription of ID to TOPIC: what it has not got it never gets.

    A topic that is not there begins: in a split, it may be there on the other side, and the end is to reach it.
    """
    return _job(session, read_asking(state, timeout, tries), topic, id, Consumer.unsubscribe)


@click.command("get")
@click.argument("topic", shell_complete=suggest_topics)
@_ID
@click.option("--limit", metavar="N", help="Print at most N messages, one to a line; else one, as 'client get' prints.")
@click.option("--wait", metavar="SECONDS", help="Wait so long for the first message, if there is none.")
@click.option("--keep", is_flag=True, help="Record nothing: the next call prints the same.")
@asking_options
@output_option
@click.pass_obj
def get_command(
    session: CliSession,
    topic: str,
    id: str,
    limit: str | None,
    wait: str | None,
    keep: bool,
    state: str | None,
    timeout: str | None,
    tries: str | None,
    form: str | None,
) -> Job:
    """Print the next message of TOPIC for ID, which is to be subscribed.

    Each message is recorded as soon as it is printed, and never printed again. A crash between the two prints it once
    more. Nothing there: fails with 3. Messages that were owed to ID and not kept are named on stderr.
    """
    wanted = Form(form) if form else session.form
    count = 1 if limit is None else read_count("--limit", limit, PAGE_MAX)
    wait_s = 0.0 if wait is None else read_seconds("--wait", wait, WAIT_S_MAX)
    check_stdout()
    show = partial(_print_line if limit is not None else _print_whole, wanted)

    def work(consumer: Consumer) -> None:
        for number in range(count):
            message = consumer.receive(0.0 if number else wait_s, limit=count - number)
            if message is None and not number:
                raise NotFoundError(f"no message of {consumer.topic!r} waits for {id!r}: wait for one with --wait")
            if message is None:
                return
            _print_one(consumer, message, show, keep=keep)

    return _job(session, read_asking(state, timeout, tries), topic, id, work)


@click.command("tail")
@click.argument("topic", shell_complete=suggest_topics)
@_ID
@click.option("--count", metavar="N", help="End after N messages.")
@asking_options
@output_option
@click.pass_obj
def tail_command(
    session: CliSession,
    topic: str,
    id: str,
    count: str | None,
    state: str | None,
    timeout: str | None,
    tries: str | None,
    form: str | None,
) -> Job:
    """Print the messages of TOPIC for ID as they come, one to a line. ID is to be subscribed.

    Each message is recorded as soon as it is printed, and never printed again. A crash between the two prints it once
    more. Messages that were owed to ID and not kept are named on stderr.
    """
    wanted = Form(form) if form else session.form
    left = None if count is None else read_count("--count", count, COUNT_MAX)
    check_stdout()

    def work(consumer: Consumer) -> None:
        printed = 0
        while left is None or printed < left:
            message = consumer.receive(WAIT_S)
            if message is not None:
                _print_one(consumer, message, partial(_print_line, wanted), keep=False)
                printed += 1

    return _job(session, read_asking(state, timeout, tries), topic, id, work)


# -- inside -------------------------------------------------------------------------------------------------------


def _job(session: CliSession, place: TopicAsking, topic: str, id: str, work: Callable[[Consumer], None]) -> Job:
    names = read_topic_name(topic), read_topic_name(id, "--id")

    def job() -> None:
        with _consumer(session, place, *names) as consumer:
            work(consumer)

    return job


@contextmanager
def _consumer(session: CliSession, place: TopicAsking, topic: str, id: str) -> Iterator[Consumer]:
    file = place.file(id)
    with (
        place.client(session) as client,
        client.consumer(topic, id=id, state=file, subscribes=False, when_gone=_tell_gone) as consumer,
    ):
        yield consumer


def _tell_gone(counters: Mapping[str, Ranges]) -> None:
    complain(gone_text(counters))


def _print_one(consumer: Consumer, message: Message, show: Callable[[object], None], *, keep: bool) -> None:
    if keep:
        show(message.value)
        return
    with consumer.done(message):
        show(message.value)


def _print_whole(form: Form, value: object) -> None:
    print_result(value, form)


def _print_line(form: Form, value: object) -> None:
    print_items([word(value) if form is Form.TEXT else value], form)
