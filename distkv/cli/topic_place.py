"""Where commands on topics keep the state of an ID, and how often they ask.

Knows: the options --id, --state, --timeout and --tries.  Does not know what a state holds (`client.topic_state`).

Invariant: two IDs have two files.
"""

from __future__ import annotations

import hashlib
import os
from itertools import cycle, islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

import asyncclick as click
import attrs

from distkv.cli.session import CliSession, Decorated
from distkv.client.arguments import PATIENCE_S_MAX
from distkv.client.blocking import Client
from distkv.errors import SettingsError

TIMEOUT_S: Final = 1.0
TRIES: Final = 3
TRIES_MAX: Final = 1000
FILE_CHARS_MAX: Final = 120
"""Of the name of a file, without its ending; longer ones are cut, and end in a hash."""


@attrs.frozen
class TopicAsking:
    """How a command asks: the state's directory, and how often it tries for how long."""

    state: str | None
    timeout_s: float
    tries: int

    def file(self, id: str) -> str:
        """The state of an ID; the usual directory is made when it is not there.

        Raises:
            SettingsError: there is no directory.
        """
        if self.state == "":
            raise SettingsError("--state is '': name a directory, or leave it out")
        directory = Path(self.state) if self.state is not None else usual_directory()
        try:
            if self.state is None:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"{directory}: {error.strerror}: give another directory with --state") from None
        if not directory.is_dir():
            what = "that is no directory" if directory.exists() else "there is no such directory: make it first"
            raise SettingsError(f"--state is {self.state!r}: {what}")
        return str(directory / file_name(id))

    def client(self, session: CliSession) -> Client:
        """Each attempt is made at the next node that is named; raises as `Client`."""
        addresses = tuple(islice(cycle(session.addresses), self.tries))
        reply_s = self.timeout_s * self.tries
        return Client(addresses, connect_s=self.timeout_s, reply_s=reply_s, reconnect=True)


def asking_options(command: Decorated) -> Decorated:
    """--state, --timeout and --tries, read by `read_asking`."""
    options = (
        click.option(
            "--state", metavar="DIR", type=click.Path(),
            help="Where the state of each ID is a file. [default: $XDG_STATE_HOME/distkv/topics]",
        ),
        click.option("--timeout", metavar="SECONDS", help=f"How long an attempt may take. [default: {TIMEOUT_S:g}]"),
        click.option(
            "--tries", metavar="N", help=f"How often it is tried, each time at the next -h. [default: {TRIES}]"
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def read_asking(state: str | None, timeout: str | None, tries: str | None) -> TopicAsking:
    """What these options say.

    Raises:
        SettingsError: a number that is none.
    """
    count = TRIES if tries is None else read_count("--tries", tries, TRIES_MAX)
    return TopicAsking(state, TIMEOUT_S if timeout is None else read_seconds("--timeout", timeout), count)


def read_count(option: str, text: str, most: int) -> int:
    """A number from 1."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= most):
        raise SettingsError(f"{option} is {text!r}: it must be a number from 1 to {most}")
    return int(text[:9])


def read_seconds(option: str, text: str, most: float = PATIENCE_S_MAX) -> float:
    """More than none."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= most:
        raise SettingsError(f"{option} is {text!r}: it must be seconds, above 0 and at most {most:.0f}")
    return found


def usual_directory() -> Path:
    """Where states lie when nothing else is said."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "distkv" / "topics"


def file_name(id: str) -> str:
    """The name of the file that has the state of an ID."""
    text = quote(id, safe=" ")
    if len(text) > FILE_CHARS_MAX:
        text = f"{text[:FILE_CHARS_MAX]}-{hashlib.sha256(id.encode()).hexdigest()[:16]}"
    return f"{text}.sqlite"
