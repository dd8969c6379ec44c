"""What messages between nodes begin with, and the chains of pings, read and written.

Knows: these fields.  Does not know which messages have them (`codec`).  Apart from `fields`, because a client
hears none of them.

Invariant: as in `fields`.
"""

from __future__ import annotations

from distkv.errors import DecodeError
from distkv.model.event import LIFE_MAX, TICK_MAX, TOCK_HEARD_MAX, Tick, Tock
from distkv.wire.fields import LINKS_MAX, Fields, bad, read_hash, read_int, read_map, read_node, read_time
from distkv.wire.message import Header, PingChain, PingLink, Start


def header_map(header: Header) -> dict[str, object]:
    """What every message begins with."""
    fields: dict[str, object] = {"node": header.node, "tick": header.tick, "tock": header.tock, "life": header.life}
    if header.network is not None:
        fields["network"] = header.network
    if header.start is not None:
        fields["start"] = [header.start.time, header.start.id]
    return fields


def read_header(fields: Fields) -> Header:
    """What every message begins with."""
    network, start = fields.get("network"), fields.get("start")
    return Header(
        read_node(fields.get("node"), "node"),
        Tick(read_int(fields, "tick")),
        Tock(read_int(fields, "tock", TOCK_HEARD_MAX)),
        read_int(fields, "life", LIFE_MAX),
        None if network is None else read_hash(network, "network"),
        None if start is None else _start(start),
    )


def _start(value: object) -> Start:
    if type(value) is not list or len(value) != 2 or type(value[1]) is not int or not 0 <= value[1] <= TICK_MAX:
        raise bad("start", "[time, id]", value)
    return Start(read_time(value[0], "start"), value[1])


def ping_chain_map(chain: PingChain) -> dict[str, object] | None:
    """Nested {node, tick, tock, prev}; the tick is absent where the node had no data, `prev` where the chain ends."""
    found: dict[str, object] | None = None
    for link in reversed(chain):
        fields: dict[str, object] = {"node": link.node, "tock": link.tock}
        if link.tick is not None:
            fields["tick"] = link.tick
        if found is not None:
            fields["prev"] = found
        found = fields
    return found


def read_ping_chain(value: object, name: str) -> PingChain:
    """At least one link."""
    links: list[PingLink] = []
    while value is not None or not links:
        fields = read_map(value, name)
        tick, tock = fields.get("tick"), fields.get("tock")
        if tick is not None and (type(tick) is not int or not 0 <= tick <= TICK_MAX):
            raise bad(name, "made of links with a tick below 2^63 or none", tick)
        if type(tock) is not int or not 0 <= tock <= TOCK_HEARD_MAX:
            raise bad(name, "made of links with a tock below 2^62", tock)
        node = read_node(fields.get("node"), name)
        links.append(PingLink(node, None if tick is None else Tick(tick), Tock(tock)))
        if len(links) > LINKS_MAX:
            raise DecodeError(f"the field '{name}' has more than {LINKS_MAX} links", f"bad_{name}")
        value = fields.get("prev")
    return tuple(links)
