"""`distkv client key`: the keys of a group that finds its members itself, and how they are renewed.

Knows: the steps of a rotation, and when each is done.  Does not know how a change reaches the nodes.

Invariant: no key is printed. A rotation removes an old key only after each node that is there uses the new one; if it
stops on the way, all nodes still understand each other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

import asyncclick as click

from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.errors import DecodeError, RequestError, SettingsError
from distkv.swim.keyring import key_id, parse_key
from distkv.text.display import table, word
from distkv.wire.fields import read_list, read_map
from distkv.wire.swim_records import KEY_BYTES, KEY_ID_BYTES, KEYS_MAX

EVERY_S: Final = 0.2
WAIT_S: Final = 60.0
"""So long a step of a rotation may take; a node that hears of it late tries again each ten seconds."""
STRANGE: Final = "-"

Rings: TypeAlias = Mapping[str, list[bytes]]
"""The ids of the keys of each node; the first one seals."""


@click.group("key")
def key_group() -> None:
    """Show and renew the keys of the network; with the transport swim and a secret in a file only."""


@key_group.command("list")
@output_option
@click.pass_obj
def list_command(session: CliSession, form: str | None) -> Job:
    """Print which node has which keys: their IDs, first the one that seals.

    An ID is eight hex digits. It says nothing about the key.
    """
    return partial(_list, session, Form(form) if form else session.form)


@key_group.command("install")
@click.argument("key")
@click.pass_obj
def install_command(session: CliSession, key: str) -> Job:
    """Give KEY to all nodes, as 'distkv swim keygen' prints it; '-' reads it from standard input.

    It opens from then on, and does not seal yet.
    """
    given = parse_key(click.get_text_stream("stdin").readline() if key == STRANGE else key, "KEY")
    return partial(_change, session, "install", given)


@key_group.command("use")
@click.argument("id")
@click.pass_obj
def use_command(session: CliSession, id: str) -> Job:
    """Let all nodes seal with the key ID."""
    return partial(_change, session, "use", _read_id(id))


@key_group.command("remove")
@click.argument("id")
@click.pass_obj
def remove_command(session: CliSession, id: str) -> Job:
    """Take the key ID from all nodes.

    It is refused while a registered node lacks the key that seals.
    """
    return partial(_change, session, "remove", _read_id(id))


@key_group.command("rotate")
@click.pass_obj
def rotate_command(session: CliSession) -> Job:
    """Renew the key: install a new one, use it, remove the others, each when all nodes that are there have done the
    last.

    This does not cure a leak: who has the old key reads the new one.
    """
    return partial(_rotate, session)


def _read_id(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) == KEY_ID_BYTES:
        return found
    raise SettingsError(f"{text!r} is no ID of a key: write the eight hex digits that 'key list' prints")


def _list(session: CliSession, form: Form) -> None:
    with Client(session.addresses) as client:
        rings = _ask(client)
    shown = {node: [one.hex() for one in ids] for node, ids in sorted(rings.items())}
    if form is Form.TEXT:
        print_items(table([("NODE", "KEYS"), *((word(node), " ".join(ids)) for node, ids in shown.items())]), form)
    else:
        print_result(shown, form)


def _change(session: CliSession, action: str, key: bytes) -> None:
    with Client(session.addresses) as client:
        client.request("change_key", {"change": action, "key": key})


def _rotate(session: CliSession) -> None:
    with Client(session.addresses) as client:
        rings = _ask(client)
        old = {one for ids in rings.values() for one in ids}
        if any(len(ids) >= KEYS_MAX for ids in rings.values()):
            raise RequestError(f"a node has {KEYS_MAX} keys already: remove one first")
        key = os.urandom(KEY_BYTES)
        new = key_id(key)
        client.request("change_key", {"change": "install", "key": key})
        _wait(client, lambda ids: new in ids, f"has the new key {new.hex()}")
        client.request("change_key", {"change": "use", "key": new})
        _wait(client, lambda ids: ids[:1] == [new], f"seals with the new key {new.hex()}")
        for one in sorted(old):
            client.request("change_key", {"change": "remove", "key": one})
        _wait(client, lambda ids: ids == [new], "has removed the old key")


def _wait(client: Client, is_done: Callable[[list[bytes]], bool], what: str) -> None:
    """Until all nodes that are there have done it."""
    end = time.monotonic() + WAIT_S
    while late := sorted([node for node, ids in _ask(client).items() if not is_done(ids)]):
        if time.monotonic() > end:
            raise RequestError(f"not each node {what}: look at {', '.join(late)}, and go on with 'key list'")
        time.sleep(EVERY_S)


def _ask(client: Client) -> Rings:
    reply = client.request("get_keys", is_read=True)
    return {node: _read_ids(ids) for node, ids in read_map(reply.get("nodes"), "nodes").items()}


def _read_ids(value: object) -> list[bytes]:
    ids = read_list(value, "nodes")
    found = [one for one in ids if isinstance(one, bytes)]
    if len(found) < len(ids):
        raise DecodeError("the field 'nodes' must hold the ids of keys", "bad_nodes")
    return found
