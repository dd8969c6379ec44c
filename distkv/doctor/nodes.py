"""Asks nodes how they are.

Knows: which of their answers hold the facts, and how a round trip bounds what a clock shows.  Does not judge them.

Invariant: a node that does not answer costs seconds, however many do not; nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from distkv.client.addresses import Address, address_text
from distkv.client.blocking import Client
from distkv.doctor.facts import Clock, DamageFacts, LinkFacts, NodeFacts, PeerFacts
from distkv.doctor.group import read_group
from distkv.doctor.services import checkups
from distkv.errors import DistkvError
from distkv.naming import parse_address
from distkv.wire.fields import bad, read_int, read_list, read_map, read_ranges, read_time
from distkv.wire.replies import Hello

CONNECT_S: Final = 2.0
REPLY_S: Final = 5.0
ROUNDS: Final = 3
"""The shortest round trip tells most about a clock."""
AT_ONCE: Final = 16
LOST_SHOWN: Final = 5
_OF_TRANSPORT: Final = {"serf.root": "root", "swim.group": "group", "swim.interval": "interval"}
"""Settings that a transport shows, by their keys."""


def ask_node(address: Address) -> NodeFacts:
    """What the node there says, or why it says nothing."""
    where = address_text(address)
    try:
        with Client([address], connect_s=CONNECT_S, reply_s=REPLY_S) as client:
            rounds = [_round(client) for _ in range(ROUNDS)]
            return _node(where, client.hello, rounds[-1][0], _clock(rounds))
    except DistkvError as error:
        return NodeFacts(where, failure=str(error))


def ask_peers(node: NodeFacts) -> dict[str, NodeFacts]:
    """What the other nodes say that ours takes for alive, by name."""
    alive = [peer for peer in node.peers if peer.is_alive]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip((peer.name for peer in alive), pool.map(_ask_peer, alive), strict=True))


def _ask_peer(peer: PeerFacts) -> NodeFacts:
    try:
        address = parse_address(peer.addr, f"the address of {peer.name}")
    except DistkvError as error:
        return NodeFacts(peer.addr, failure=str(error))
    return ask_node(address)


def _round(client: Client) -> tuple[Mapping[str, object], float, float]:
    """The state, and this host's clock before and after it."""
    begin, before_s = time.time(), time.monotonic()
    state = client.state()
    return state, begin, begin + time.monotonic() - before_s


def _clock(rounds: list[tuple[Mapping[str, object], float, float]]) -> Clock | None:
    """Somewhere between request and reply the node read its clock: halfway, give or take half the round trip."""
    state, begin, end = min(rounds, key=lambda one: one[2] - one[1])
    if "time" not in state:
        return None
    return Clock(read_time(state["time"], "time") - (begin + end) / 2, (end - begin) / 2)


def _node(where: str, hello: Hello, state: Mapping[str, object], clock: Clock | None) -> NodeFacts:
    settings = dict(read_map(state.get("settings", {}), "settings"))
    transport = read_map(state.get("transport", {}), "transport")
    settings |= {key: transport[name] for key, name in _OF_TRANSPORT.items() if name in transport}
    missing = read_ranges(state.get("missing", {}), "missing")
    lost = read_ranges(state.get("lost", {}), "lost")
    pings = read_map(state.get("pings", {}), "pings")
    return NodeFacts(
        where,
        name=hello.node,
        version=".".join(map(str, hello.version)),
        state=str(state.get("state")),
        waits_for=str(state.get("waits_for", "")),
        network=None if state.get("network") is None else str(state.get("network")),
        clock=clock,
        settings={str(key): value for key, value in settings.items()},
        delivery_s=_delivery(pings.get("delivery")),
        partitions=read_int(pings, "partitions", low=1) if "partitions" in pings else 1,
        missing=tuple(name for name, ranges in missing.items() if not lost.get(name) or ranges - lost[name]),
        peers=tuple(
            PeerFacts(str(found.get("node")), str(found.get("addr")), found.get("state") == "alive")
            for found in (read_map(item, "members") for item in read_list(state.get("members"), "members"))
            if found.get("node") != hello.node and found.get("state") != "retired"
        ),
        links=tuple(
            LinkFacts(
                *(str(found.get("node")), str(found.get("addr")), found.get("state") == "up"),
                str(found.get("reason", "")),
            )
            for found in (read_map(item, "links") for item in read_list(state.get("links", []), "links"))
        ),
        group=read_group(transport),
        damage=_damage(read_map(state.get("scrub", {}), "scrub")),
        services={one.name: one.read(read_map(state.get(one.name, {}), one.name)) for one in checkups()},
        failed=tuple(map(str, read_list(state.get("failed", []), "failed"))),
        aside=tuple(
            str(read_map(item, "aside").get("id")) for item in read_list(state.get("aside", []), "aside")
        ),
    )


def _damage(found: Mapping[str, object]) -> DamageFacts | None:
    if not found:
        return None
    last = found.get("last")
    scrubbed = None if last is None else read_time(read_map(last, "last").get("ended"), "ended")
    lost = [read_map(item, "lost") for item in read_list(found.get("lost"), "lost")]
    return DamageFacts(
        scrubbed,
        read_int(found, "lost_count"),
        tuple(str(one.get("path") or one.get("place")) for one in lost[:LOST_SHOWN]),
    )


def _delivery(field: object) -> tuple[float, float] | None:
    """None: no ping of its own was followed yet, or it is of an older release."""
    if field is None:
        return None
    match read_list(field, "delivery"):
        case [least, most]:
            return read_time(least, "delivery"), read_time(most, "delivery")
    raise bad("delivery", "two times", field)
