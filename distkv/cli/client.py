"""`distkv client`: what talks to a node.

Knows: how the node is named.  Does not know its commands (`kv`, `node`).

Invariant: no command connects before its whole command line was understood.
"""

from __future__ import annotations

import os

import asyncclick as click

from distkv.cli.backup import backup_command
from distkv.cli.bench import bench_command
from distkv.cli.conflicts import conflicts_command
from distkv.cli.history import history_command
from distkv.cli.kv import delete_command, get_command, set_command
from distkv.cli.members import node_group
from distkv.cli.node import state_command
from distkv.cli.ping import ping_command
from distkv.cli.scrub import scrub_command
from distkv.cli.session import Session, read_addresses
from distkv.cli.transfer import dump_command, load_command
from distkv.cli.tree import list_command
from distkv.cli.watch import watch_command


@click.group()
@click.option(
    "-h", "--host", "hosts", multiple=True, metavar="HOST",
    help="Where the node is, HOST, HOST:PORT or unix:/PATH; several are tried in turn. [env: DISTKV_HOST, with commas] "
    "[default: 127.0.0.1]",
)  # fmt: skip
@click.option("-p", "--port", metavar="PORT", help="Its port. [env: DISTKV_PORT] [default: 27586]")
@click.pass_context
def client(context: click.Context, hosts: tuple[str, ...], port: str | None) -> None:
    """Read and write values, and ask a node how it is."""
    session: Session = context.obj
    session.addresses = read_addresses(hosts, port, os.environ.get("DISTKV_HOST"), os.environ.get("DISTKV_PORT"))


for command in (
    get_command,
    set_command,
    delete_command,
    list_command,
    history_command,
    conflicts_command,
    watch_command,
    load_command,
    dump_command,
    backup_command,
    scrub_command,
    state_command,
    node_group,
    ping_command,
    bench_command,
):
    client.add_command(command)
