"""`distkv client node list` and `node retire`: the nodes that a node knows.

Knows: its options and what it prints.  Does not know the client protocol.

Invariant: every node that was ever heard of is listed, also one that has only left its changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import asyncclick as click
import attrs

from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.model.event import tick_text
from distkv.text.display import table
from distkv.wire.fields import read_int, read_list, read_map, read_ranges, read_time

HEADS: Final = ("NODE", "STATE", "ADDRESS", "LAST CHANGE", "MISSING", "LINK", "RTT MS", "LEVEL", "PARENT", "LOAD")


@attrs.frozen
class PlaceView:
    """What a node announces on the server tree."""

    level: int
    parent: str
    """Empty: it is the root."""
    load: int
    """How many clients are connected to it."""


@attrs.frozen
class MemberView:
    """A node, as another one sees it."""

    node: str
    state: str
    """Of the node that is asked, its own; of others `alive`, `away` or `retired`; `unknown` of one that was only told
    of."""
    addr: str
    tick: int
    """Its last change that was heard of; 0: none."""
    missing: int
    """How many of its changes the node that is asked does not have."""
    link: str = ""
    """`up` or `down`: the connection of the node that is asked to it; empty: there is none, as to itself."""
    rtt_ms: float | None = None
    """A round trip on it."""
    place: PlaceView | None = None
    """None: it announces nothing, or is in another tree."""


@click.group("node")
def node_group() -> None:
    """List the nodes of the network, and retire one."""


@node_group.command("list")
@output_option
@click.pass_obj
def list_command(session: CliSession, form: str | None) -> Job:
    """Print the nodes that this node knows, itself first.

    For each node: whether it was heard of lately (alive) or not (away), its address, its last known change, how many
    of its changes are missing here, whether this node has a connection to it, and how long a round trip takes there.
    Then its level and parent in the server tree, and how many clients are connected to it.
    """
    return partial(_list, session, Form(form) if form else session.form)


def _list(session: CliSession, form: Form) -> None:
    with Client(session.addresses) as client:
        members = read_members(client.state())
    if form is Form.TEXT:
        print_items(_table(members), form)
    else:
        print_result([_map(member) for member in members], form)


@node_group.command("retire")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if it is seen alive.")
@click.pass_obj
def retire_command(session: CliSession, name: str, force: bool) -> Job:
    """Say that the node NAME is gone for good.

    Nothing waits for it any more: deletions are forgotten in the end, and it is left out where all nodes are needed.
    Its data stay. If it returns, the others get what only it has; then it joins again as an empty node.
    """
    return partial(_retire, session, name, force)


def _retire(session: CliSession, name: str, force: bool) -> None:
    with Client(session.addresses) as client:
        client.retire_node(name, force=force)


def read_members(state: Mapping[str, object]) -> list[MemberView]:
    """What a `get_state` tells of nodes.

    Raises:
        DecodeError: it is none.
    """
    own = str(state.get("node"))
    ticks, missing = read_map(state.get("nodes"), "nodes"), read_ranges(state.get("missing"), "missing")
    seen = {own: (str(state.get("state")), str(state.get("addr", "")))}
    for item in read_list(state.get("members"), "members"):
        member = read_map(item, "members")
        seen.setdefault(str(member.get("node")), (str(member.get("state")), str(member.get("addr"))))
    others = sorted({*seen, *map(str, ticks)} - {own})
    count = {str(name): len(ranges) for name, ranges in missing.items()}
    links, places = _links(state), _places(state)
    return [
        MemberView(
            *(name, *seen.get(name, ("unknown", "")), read_int({name: 0, **ticks}, name), count.get(name, 0)),
            *links.get(name, ("", None)),
            places.get(name),
        )
        for name in (own, *others)
    ]


def _links(state: Mapping[str, object]) -> dict[str, tuple[str, float | None]]:
    """For each node the state of the connection to it, and its round trip; an older release tells of none."""
    found: dict[str, tuple[str, float | None]] = {}
    for item in read_list(state.get("links", []), "links"):
        link = read_map(item, "links")
        rtt_ms = read_time(link["rtt_ms"], "rtt_ms") if "rtt_ms" in link else None
        found[str(link.get("node"))] = str(link.get("state")), rtt_ms
    return found


def _places(state: Mapping[str, object]) -> dict[str, PlaceView]:
    """What each node announces; an older release tells of none."""
    tree, found = read_map(state.get("tree", {}), "tree"), dict[str, PlaceView]()
    for name, item in read_map(tree.get("announced", {}), "announced").items():
        what = read_map(item, "announced")
        parent = what.get("parent")
        level, load = read_int(what, "level"), read_int(what, "load")
        found[str(name)] = PlaceView(level, "" if parent is None else str(parent), load)
    return found


def _table(members: Sequence[MemberView]) -> list[str]:
    return table([HEADS, *map(_row, members)])


def _row(member: MemberView) -> tuple[str, ...]:
    rtt = "-" if member.rtt_ms is None else f"{member.rtt_ms:.2f}"
    shown = member.node, member.state, member.addr or "-", _change(member) or "-", str(member.missing)
    place = member.place
    stands = ("-", "-", "-") if place is None else (str(place.level), place.parent or "-", str(place.load))
    return *shown, member.link or "-", rtt, *stands


def _map(member: MemberView) -> dict[str, object]:
    place = member.place
    return {
        "node": member.node,
        "state": member.state,
        "addr": member.addr,
        "change": _change(member),
        "missing": member.missing,
        "link": member.link,
        "rtt_ms": member.rtt_ms,
        "level": place.level if place else None,
        "parent": place.parent if place else None,
        "load": place.load if place else None,
    }


def _change(member: MemberView) -> str:
    return tick_text(member.node, member.tick) if member.tick else ""
