"""`distkv client`: what talks to a node.

Knows: how the node is named.  Does not know its commands (`kv`, `node`).

Invariant: no command connects before its whole command line was understood.
"""

from __future__ import annotations

import os

import asyncclick as click

from distkv.cli.backup import backup_command
from distkv.cli.bench import bench_command
from distkv.cli.history import history_command
from distkv.cli.kv import delete_command, get_command, set_command
from distkv.cli.members import node_group
from distkv.cli.node import state_command
from distkv.cli.ping import ping_command
from distkv.cli.session import Session
from distkv.cli.transfer import dump_command, load_command
from distkv.cli.tree import list_command
from distkv.cli.watch import watch_command
from distkv.client.addresses import DEFAULT_ADDRESS, Address, read_address
from distkv.errors import SettingsError


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


def read_addresses(
    hosts: tuple[str, ...], port: str | None, hosts_default: str | None, port_default: str | None
) -> tuple[Address, ...]:
    """The addresses to try, in this order; the defaults are those of the environment.

    Raises:
        SettingsError: a port that is none.
    """
    where = "--port" if port else "DISTKV_PORT"
    text = port or port_default or str(DEFAULT_ADDRESS[1])
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) < 65536):
        raise SettingsError(f"{where} is {text!r}: it must be a number from 1 to 65535")
    names = hosts or tuple(filter(None, (name.strip() for name in (hosts_default or "").split(","))))
    return tuple(read_address(name, int(text)) for name in names or (DEFAULT_ADDRESS[0],))


for command in (
    get_command,
    set_command,
    delete_command,
    list_command,
    history_command,
    watch_command,
    load_command,
    dump_command,
    backup_command,
    state_command,
    node_group,
    ping_command,
    bench_command,
):
    client.add_command(command)
