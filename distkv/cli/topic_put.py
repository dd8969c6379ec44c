"""`distkv client topic put`: a message into a topic.

Knows: its options, and when a call is the repetition of one that was interrupted.  Does not know the numbers of
messages (`client.producing`).

Invariant: with --id a message that may be stored is never begun anew.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.dashes import ValueCommand
from distkv.cli.output import Form, check_stdout, complain, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.topic import read_topic_name, suggest_topics
from distkv.cli.topic_place import TopicAsking, asking_options, read_asking
from distkv.cli.values import read_value
from distkv.client.topic_handle import PutDone, as_message, as_producer_id
from distkv.errors import DistkvError, RequestError, SettingsError, UnknownOutcomeError, UnreachableError
from distkv.wire.fields import read_flag, read_int

_REPEAT: Final = "it is kept, and not put twice: repeat the command"


@click.command("put", cls=ValueCommand)
@click.argument("topic", shell_complete=suggest_topics)
@click.argument("message", required=False)
@click.option("-s", "--string", "as_text", is_flag=True, help="MESSAGE is plain text.")
@click.option("-j", "--json", "as_json", is_flag=True, help='MESSAGE is JSON; bytes are {"$bytes": "base64"}.')
@click.option(
    "-f", "--file", metavar="FILE", type=click.Path(),
    help="Read the message from FILE: YAML, or as -s or -j says. '-' is stdin.",
)  # fmt: skip
@click.option("--id", metavar="ID", help="Who puts it: with a state, so that it is put once.")
@asking_options
@output_option
@click.pass_obj
def put_command(
    session: CliSession,
    topic: str,
    message: str | None,
    as_text: bool,
    as_json: bool,
    file: str | None,
    id: str | None,
    state: str | None,
    timeout: str | None,
    tries: str | None,
    form: str | None,
) -> Job:
    """Put MESSAGE into TOPIC, and print which message of which producer it is.

    MESSAGE is written as the VALUE of 'set'. With --id it is put once: what was sent and not answered is kept, and the
    next call with this ID sends it first. A call that was interrupted, or that no node answered, may be repeated: it
    goes on with the same message. Without --id it may be stored although the command fails, and a second call puts a
    second message. With 'distkv -q client', nothing is printed.

    A crash after the message is stored and before the command ends leaves it unanswered: repeat the command then, too.
    """
    place, where = read_asking(state, timeout, tries), read_topic_name(topic)
    value = read_value(message, file, as_text=as_text, as_json=as_json, argument="MESSAGE")
    wanted = Form(form) if form else session.form
    is_quiet = session.verbosity < 0
    if not is_quiet:
        check_stdout()
    return partial(_put, session, place, where, value, id, None if is_quiet else wanted)


# -- inside -------------------------------------------------------------------------------------------------------


def _put(session: CliSession, place: TopicAsking, topic: str, value: object, id: str | None, form: Form | None) -> None:
    done = _put_plainly(session, place, topic, value) if id is None else _put_once(session, place, topic, value, id)
    if done.renamed_from is not None:
        complain(
            f"the state of {id!r} is a copy, or an old one: {done.renamed_from!r} has put another message with this "
            f"number; this one was put as {done.producer!r}"
        )
    if form in (Form.TEXT, Form.RAW):
        print_result(f"{done.producer}:{done.counter}", form)
    elif form is not None:
        told = {"producer": done.producer, "counter": done.counter, "duplicate": done.duplicate}
        print_result({**told, "copies": done.copies}, form)


def _put_plainly(session: CliSession, place: TopicAsking, topic: str, value: object) -> PutDone:
    as_message(value)
    with place.client(session) as client:
        reply = client.request("topic_put", {"topic": topic, "value": value})
    duplicate, copies = read_flag(reply, "duplicate"), read_int(reply, "copies")
    return PutDone(topic, str(reply.get("producer")), read_int(reply, "counter"), duplicate, copies)


def _put_once(session: CliSession, place: TopicAsking, topic: str, value: object, id: str) -> PutDone:
    packed = as_message(value)
    file = place.file(_read_id(id))
    with place.client(session) as client, client.producer(id, state=file) as producer:
        try:
            return producer.put_again(topic, packed, _tell_refused) or producer.put(topic, value)
        except UnknownOutcomeError as error:
            why = str(error).split(": it is kept")[0]
            raise UnreachableError(f"{why}: {_REPEAT}") from None


def _read_id(id: str) -> str:
    try:
        return as_producer_id(id)
    except RequestError as error:
        raise SettingsError(f"--id: {error}") from None


def _tell_refused(error: DistkvError) -> None:
    complain(f"a message that an earlier call has put was refused: {error}")
