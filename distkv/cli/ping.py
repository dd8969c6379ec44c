"""`distkv client ping`: round trips.

Knows: its options and what it prints.  Does not know the client protocol.

Invariant: whatever ends it, an interrupt too, what was measured until then is printed.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client

COUNT: Final = 5
ROUNDS_KEPT: Final = 100_000
"""The summary is of so many, the last ones."""


@click.command("ping")
@click.option(
    "-n", "--count", metavar="N", type=click.IntRange(0),
    help=f"How many round trips; prints each of them. 0: until interrupted. [default: {COUNT}, not printed]",
)  # fmt: skip
@click.option(
    "--interval", metavar="SECONDS", type=click.FloatRange(0, 3600), default=0.2, help="Pause between two. [0.2]"
)
@output_option
@click.pass_obj
def ping_command(session: CliSession, count: int | None, interval: float, form: str | None) -> Job:
    """Measure round trips; a node answers in every state.

    Fails with 5 if the node does not answer. Ctrl-C ends it and prints the summary.
    """
    return partial(_ping, session, count, interval, Form(form) if form else session.form)


def _ping(session: CliSession, count: int | None, interval_s: float, form: Form) -> None:
    rounds: deque[float] = deque(maxlen=ROUNDS_KEPT)
    with Client(session.addresses) as client:
        try:
            for number, milliseconds in enumerate(_rounds(client, COUNT if count is None else count, interval_s), 1):
                rounds.append(milliseconds)
                if count is not None and form is Form.TEXT:
                    print_items([f"{number}: {milliseconds} ms"], form)
        finally:
            if rounds:
                _print_summary(client, rounds, form)


def _rounds(client: Client, count: int, interval_s: float) -> Iterator[float]:
    """The milliseconds of each; `count` 0 is without end."""
    for number in range(count) if count else itertools.count():
        if number:
            time.sleep(interval_s)
        begin = time.perf_counter()
        client.ping()
        yield round((time.perf_counter() - begin) * 1000, 3)


def _print_summary(client: Client, rounds: Sequence[float], form: Form) -> None:
    hello = client.hello
    found = {"min": min(rounds), "median": round(statistics.median(rounds), 3), "max": max(rounds)}
    if form is Form.TEXT:
        trips = "1 round trip" if len(rounds) == 1 else f"{len(rounds)} round trips"
        shown = ", ".join(f"{name} {milliseconds}" for name, milliseconds in found.items())
        print_items([f"{hello.node} at {client.address} is {hello.state} ({trips}: {shown} ms)"], form)
    else:
        whole = {"node": hello.node, "address": client.address, "state": hello.state.value}
        print_result(whole | {"count": len(rounds), "ms": found}, form)
