"""`distkv client`: what talks to a node.

Knows: how the node is named.  Does not know its commands (`kv`, `node`).

Invariant: no command connects before its whole command line was understood.
"""

from __future__ import annotations

import os

import asyncclick as click

from distkv.cli.commands import Commands, shared_commands
from distkv.cli.session import CliSession, read_addresses


def client_commands() -> Commands:
    """Those of the store, and those of services."""
    return Commands({
        "get": "kv:get_command",
        "set": "writes:set_command",
        "delete": "writes:delete_command",
        "list": "tree:list_command",
        "history": "history:history_command",
        "conflicts": "conflicts:conflicts_command",
        "watch": "watch:watch_command",
        "load": "transfer:load_command",
        "dump": "transfer:dump_command",
        "backup": "backup:backup_command",
        "scrub": "scrub:scrub_command",
        "state": "node:state_command",
        "node": "members:node_group",
        "members": "group_members:members_command",
        "key": "keys:key_group",
        "aside": "aside:aside_group",
        "ping": "ping:ping_command",
        "bench": "bench:bench_command",
    }, shared_commands())  # fmt: skip


@click.group("client", commands=client_commands())
@click.option(
    "-h", "--host", "hosts", multiple=True, metavar="HOST",
    help="The node: HOST, HOST:PORT or unix:/PATH; several, also with commas between them, are tried in turn. "
    "[env: DISTKV_HOST] [default: 127.0.0.1]",
)  # fmt: skip
@click.option("-p", "--port", metavar="PORT", help="Its port. [env: DISTKV_PORT] [default: 27586]")
@click.pass_context
def client(context: click.Context, hosts: tuple[str, ...], port: str | None) -> None:
    """Read and write values, and show the state of a node."""
    session: CliSession = context.obj
    session.addresses = read_addresses(hosts, port, os.environ.get("DISTKV_HOST"), os.environ.get("DISTKV_PORT"))

