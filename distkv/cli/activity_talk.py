"""`distkv client activity register`, `send` and `listen`: what a client of the activity network does.

Knows: their options and what they print.  Does not know how clients find a node that takes them.

Invariant: a line of `listen` is one activity, or one gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.activity_user import read_secret, read_user, user_options
from distkv.cli.input import STDIN, standard_input
from distkv.cli.output import Form, check_stdout, print_items
from distkv.cli.session import CliSession, Job
from distkv.client.activity import ActivityHalf, ActivityMessage, ActivityNews
from distkv.client.activity_registration import register
from distkv.client.blocking_activity import Activity
from distkv.errors import BadValueError, DecodeError, SettingsError
from distkv.wire.activity_lines import LINE_BYTES_MAX, read_object

TEXT_FIELD: Final = "text"
"""So an activity has a text that is said on the command line."""
PATIENCE_S: Final = 30.0
CONNECT_S: Final = 5.0


@click.command("register")
@click.argument("user")
@click.option("--secret-file", metavar="FILE", required=True, help="Its first line is the secret. '-' is stdin.")
@click.pass_obj
def register_command(session: CliSession, user: str, secret_file: str) -> Job:
    """Make an account for USER, so that nobody else can log in under this name.

    Fails with 4 if the name is taken, and with 5 if no majority of the token servers can be asked.
    """
    return partial(register, session.addresses, user, read_secret(secret_file))


@click.command("send")
@click.argument("text", required=False)
@click.option("-j", "--json", "as_json", is_flag=True, help="TEXT is a JSON object: the activity.")
@user_options
@click.pass_obj
def send_command(
    session: CliSession, text: str | None, as_json: bool, user: str, secret_file: str | None
) -> Job:
    """Say TEXT to everybody who is connected, as {"text": TEXT}.

    With '-', each line of standard input is a JSON object. The command ends when all echoes came: then everybody who is
    connected hears it. It fails with 5 when the connection ended before, and nobody knows whom it reached.
    """
    if text is None:
        raise click.UsageError("give TEXT, or '-' to read activities from standard input")
    who = read_user(user, secret_file)
    if text == STDIN and secret_file == STDIN:
        raise SettingsError("standard input cannot be both the activities and the secret")
    given = _objects() if text == STDIN else iter([_object(text.encode()) if as_json else {TEXT_FIELD: text}])
    return partial(_send, session, who, given)


@click.command("listen")
@click.option("--count", metavar="N", type=click.IntRange(1), help="End after N lines.")
@user_options
@click.pass_obj
def listen_command(session: CliSession, count: int | None, user: str, secret_file: str | None) -> Job:
    """Print what is said, one JSON object to a line.

    Activities that will not come, because they are not kept any more, are a line {"gap": {...}}.
    """
    check_stdout()
    return partial(_listen, session, read_user(user, secret_file), count)


# -- inside -------------------------------------------------------------------------------------------------------


def _send(session: CliSession, who: tuple[str, str | None], given: Iterator[Mapping[str, object]]) -> None:
    with _open(session, who, listens=False) as activity:
        for one in given:
            activity.send(one)


def _listen(session: CliSession, who: tuple[str, str | None], left: int | None) -> None:
    printed = 0
    with _open(session, who, listens=True) as activity:
        for news in activity:
            print_items([_shown(news)], Form.JSON)
            printed += 1
            if printed == left:
                return


def _open(session: CliSession, who: tuple[str, str | None], *, listens: bool) -> Activity:
    half = ActivityHalf(*who, listens=listens)
    return Activity(session.addresses, half, connect_s=CONNECT_S, reply_s=PATIENCE_S)


def _shown(news: ActivityNews) -> Mapping[str, object]:
    if isinstance(news, ActivityMessage):
        return news.activity
    return {"gap": {"origin": news.origin, "first": news.first, "last": news.last}}


def _objects() -> Iterator[Mapping[str, object]]:
    stream = standard_input("activity")
    while line := stream.readline(LINE_BYTES_MAX + 1):
        if line.strip():
            yield _object(line)


def _object(data: bytes) -> Mapping[str, object]:
    try:
        return read_object(data.strip())
    except DecodeError as error:
        raise BadValueError(f"an activity is a JSON object: {error}") from None
