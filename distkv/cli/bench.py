"""`distkv client bench`: how fast the node answers that one talks to.

Knows: its options and what it prints.  Does not know how it is measured.

Invariant: it takes about the time that it was given; nothing that it wrote is left.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

import asyncclick as click
import attrs

from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client

if TYPE_CHECKING:
    from distkv.client.measurement import Measured

HEADS: Final = f"{'what':<6}{'connections':>12}{'per second':>12}{'p50 ms':>10}{'p99 ms':>10}"


@click.command("bench")
@click.option(
    "--seconds", metavar="SECONDS", type=click.FloatRange(0.1, 60), default=4, help="Time for everything. [default: 4]"
)
@click.option(
    "--connections", metavar="N", type=click.IntRange(2, 256), default=16, help="How many connections. [default: 16]"
)
@output_option
@click.pass_obj
def bench_command(session: CliSession, seconds: float, connections: int, form: str | None) -> Job:
    """Measure how many values of 100 bytes the node reads and stores durably in a second.

    It uses one connection, then N, with one request at a time on each. The client is Python and takes its share of the
    time: compare with the same node on another day, not with other programs. The writes are replicated and stay in the
    history like any others. Their values are below a name that begins with distkv-bench, and are deleted at the end.
    """
    return partial(_bench, session, seconds, connections, Form(form) if form else session.form)


def _bench(session: CliSession, seconds: float, connections: int, form: Form) -> None:
    with Client(session.addresses) as client, closing(_measured(client, seconds, connections)) as found:
        if form is not Form.TEXT:
            print_result([attrs.asdict(one) for one in found], form)
            return
        head = f"{client.hello.node} at {client.address}, values of 100 bytes; the client is Python"
        print_items([head, HEADS], form)
        for one in found:
            print_items([_line(one)], form)


def _measured(client: Client, seconds: float, connections: int) -> Generator[Measured, None, None]:
    from distkv.client.measurement import BenchKind, measure, scratch  # no other command needs a selector

    runs = [(kind, count) for kind in BenchKind for count in (1, connections)]
    with scratch(client) as paths:
        for kind, count in runs:
            yield measure(kind, client.address, paths, count, seconds / len(runs))


def _line(one: Measured) -> str:
    return f"{one.kind:<6}{one.connections:>12}{one.per_second:>12,.0f}{one.p50_ms:>10.3f}{one.p99_ms:>10.3f}"
