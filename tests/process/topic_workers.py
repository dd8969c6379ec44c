"""Programs that put and get messages until they are told to end, and write down what they were told.

    python -m tests.process.topic_workers producer ID DIRECTORY HOST:PORT...
    python -m tests.process.topic_workers consumer ID DIRECTORY HOST:PORT...
    python -m tests.process.topic_workers stateless ID DIRECTORY HOST:PORT...

Knows: the blocking clients of topics.  Does not know what is done to servers, or to these programs, meanwhile.

A producer puts [ID, 1], [ID, 2] and so on, and writes a line to DIRECTORY/ID.puts for each: `put NUMBER` before it,
`ok NUMBER` when it was answered, `error NUMBER WHY` when it was not. After a restart it goes on behind its last line.
Every tenth answered put is sent once more to another node, as somebody would whose answer was lost.

A consumer has its effects and its position in one SQLite file, DIRECTORY/ID.db; it may be killed at any time. One
without a state writes what it got to DIRECTORY/ID.got; it is never killed. Each of them writes `gone` to stderr.

Invariant: what is in the file of a consumer was committed together with its position.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TextIO

import attrs

import distkv
from distkv.client.addresses import read_address
from distkv.client.connection import open_connection
from distkv.client.questions import Question, Repeat
from distkv.errors import DistkvError
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields
from distkv.wire.topic_requests import TopicPut
from distkv.wire.values import pack_value
from tests.process.tokens import pause

TOPIC: Final = "work"
REPLY_S: Final = 20.0
PAUSE_S: Final = 0.02


def produce(id: str, directory: Path, hosts: Sequence[str]) -> None:
    """Until `DIRECTORY/stop` is there."""
    journal = directory / f"{id}.puts"
    lines = journal.read_text().splitlines() if journal.exists() else []
    number = max([int(line.split()[1]) for line in lines], default=0)
    state = directory / f"{id}.producer"
    lasting = journal.open("a", buffering=1)
    with lasting as out, connected(hosts) as client, client.producer(id, state=state) as producer:
        while not (directory / "stop").exists():
            number += 1
            out.write(f"put {number}\n")
            began = time.monotonic()
            try:
                done = producer.put(TOPIC, [id, number])
            except DistkvError as error:
                out.write(f"error {number} {error.code} {time.monotonic() - began:.3f}\n")
            else:
                out.write(f"ok {number} {done.producer} {done.counter} {time.monotonic() - began:.3f}\n")
                if number % 10 == 0:
                    repeat(hosts[number // 10 % len(hosts)], done.producer, done.counter, [id, number])
            pause(PAUSE_S)


def repeat(host: str, producer: str, counter: int, value: object) -> None:
    """Put the same once more, at a node that may not be up."""
    put = TopicPut(0, TOPIC, pack_value(value), producer, counter)
    question = Question[Fields](
        lambda seq: encode_request(attrs.evolve(put, seq=seq)), lambda reply: reply, Repeat.NEVER
    )
    with suppress(DistkvError), closing(open_connection([read_address(host)], connect_s=1)) as connection:
        connection.ask(question, time.monotonic() + 1)  # it may have happened, or not


def received(consumer: distkv.Consumer) -> distkv.Message | None:
    """The next message, as soon as there is one: while nodes are killed there are reasons why not."""
    try:
        return consumer.receive(wait_s=1)
    except (distkv.Unreachable, distkv.Away, distkv.NotReady, distkv.Busy) as error:
        say(sys.stderr, f"{error.code}: {error}")
        return None


def consume(id: str, directory: Path, hosts: Sequence[str]) -> None:
    """Until `DIRECTORY/stop` is there, and then until nothing comes for a while."""
    db = sqlite3.connect(directory / f"{id}.db", isolation_level=None)
    columns = "at INTEGER PRIMARY KEY AUTOINCREMENT, producer, number, stream, counter, wall"
    db.execute(f"CREATE TABLE IF NOT EXISTS got ({columns})")
    with connected(hosts) as client, client.consumer(TOPIC, id=id, state=db, when_gone=say_gone) as consumer:
        say(sys.stdout, "open")
        while not (directory / "end").exists():
            message = received(consumer)
            if message is not None:
                found = (*message.value, message.producer, message.counter, time.time())
                with consumer.done(message) as own:
                    own.execute(f"INSERT INTO got VALUES (NULL{', ?' * len(found)})", found)


def consume_without_state(id: str, directory: Path, hosts: Sequence[str]) -> None:
    """The same, from memory."""
    got = (directory / f"{id}.got").open("w", buffering=1)
    with got as out, connected(hosts) as client, client.consumer(TOPIC, id=id, when_gone=say_gone) as consumer:
        say(sys.stdout, "open")
        while not (directory / "end").exists():
            message = received(consumer)
            if message is not None:
                with consumer.done(message):
                    out.write("{} {}\n".format(*message.value))


def connected(hosts: Sequence[str]) -> distkv.Client:
    """A client that tries all of them, as long as it takes."""
    while True:
        try:
            return distkv.connect(hosts, reply_s=REPLY_S)
        except distkv.Unreachable:
            pause(0.2)


def say_gone(gone: object) -> None:
    say(sys.stderr, f"gone: {gone}")


def say(out: TextIO, line: str) -> None:
    out.write(line + "\n")
    out.flush()


if __name__ == "__main__":
    kind, name, place, *addresses = sys.argv[1:]
    {"producer": produce, "consumer": consume, "stateless": consume_without_state}[kind](name, Path(place), addresses)
