"""`distkv client echo`: have a node say something back.

Knows: what it prints.  Does not know the client protocol.
"""

from __future__ import annotations

from functools import partial

import asyncclick as click

from distkv.cli.session import CliSession, Job
from tests.proof.client.echo import EchoClient


@click.command("echo")
@click.argument("node")
@click.argument("text")
@click.pass_obj
def echo_command(session: CliSession, node: str, text: str) -> Job:
    """Print what NODE says back."""
    return partial(_echo, session, node, text)


def _echo(session: CliSession, node: str, text: str) -> None:
    with EchoClient(session.addresses) as client:
        click.echo(client.echo(node, text))
