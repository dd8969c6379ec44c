"""Hostile user events, sent through an agent: dropped and counted, and nothing changes.

Knows: the form of messages, and how to break it.  Does not know how a node judges them.

An agent hands its own events to its own server at once and without loss; so what is sent through a's agent is what
server a hears, and the others hear most of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pytest
import trio

from distkv.model.event import TOCK_HEARD_MAX, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.state import State
from distkv.wire.gossip import encode_message
from distkv.wire.message import Header, Info, Ping, PingLink, Start, Update
from distkv.wire.packing import pack, unpack
from distkv.wire.values import pack_value
from tests.process.cluster import Cluster, open_cluster
from tests.process.load import get_many

STRANGER = NodeName("mallory")
KINDS = ("update", "info", "ping")

BAD_PAYLOADS = {
    "empty": b"",
    "no msgpack": b"\xc1",
    "text of another program": b"hello",
    "nil": b"\xc0",
    "integer": b"\x05",
    "empty list": b"\x90",
    "empty map": b"\x80",
    "two maps": b"\x80\x80",
    "cut off": b"\x82\xa4node\xa1a",
    "400 lists": b"\x91" * 400 + b"\x90",
    "map of lists": b"\x81\xa4node" + b"\x91" * 300 + b"\x90",
    "four billion items": b"\xdd\xff\xff\xff\xff",
    "four billion fields": b"\xdf\xff\xff\xff\xff",
    "four billion bytes": b"\xc6\xff\xff\xff\xff",
    "key that is a list": b"\x81\x90\x01",
    "only a name": pack({"node": "b"}),
}

Maker: TypeAlias = Callable[[Header], tuple[str, bytes]]

WRONG = (None, True, -1, 2**64 - 1, 1.5, "", "x" * 80, b"\xff", [], [[]], {}, {"x": {}}, {"b": [[5, 1]]}, ["b", 1])
"""Well-formed values where others belong."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, each of which wrote something."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as found:
        for server in found:
            with server.client() as client:
                client.set(f"from.{server.name}", 1)
        found.wait_equal(30)
        yield found


@pytest.fixture(autouse=True)
def _all_are_as_before(cluster: Cluster) -> Iterator[None]:
    """Nothing that is replicated changes, and every node still serves."""

    def held() -> list[object]:
        states = [server.state() for server in cluster]
        return [(state["digest"], state["held"], state["missing"], state["nodes"], state["tick"]) for state in states]

    before = held()
    yield
    assert held() == before
    for server in cluster:
        assert get_many(server, ["from.a"]) == {"from.a": 1}
    assert not cluster.tracebacks()


# -- what is sent, and what is counted ----------------------------------------------------------------------------


def _send(cluster: Cluster, events: Sequence[tuple[str, bytes]]) -> None:
    """Through a's agent, not faster than agents pass events on."""

    async def send() -> None:
        async with cluster.agent("a").open_rpc() as rpc:
            for kind, payload in events:
                await rpc.send_event(f"distkv.{kind}", payload)
                await trio.sleep(0.005)

    trio.run(send)


def _wait_counted(cluster: Cluster, name: str, count: int) -> None:
    """Until a's counter, or those that begin so, stand exactly there."""

    def counted() -> bool:
        counts = {**_transport(cluster), **_counters(cluster)}
        return _sum(counts, name) == count

    cluster.wait(counted, f"{name} is {count}", 30)


def _transport(cluster: Cluster) -> Mapping[str, int]:
    found = cluster["a"].state()["transport"]
    assert isinstance(found, dict)
    return found


def _counters(cluster: Cluster) -> Mapping[str, int]:
    found = cluster["a"].state()["counters"]
    assert isinstance(found, dict)
    return found


def _sum(counts: Mapping[str, int], *prefixes: str) -> int:
    return sum(count for name, count in counts.items() if name.startswith(prefixes))


# -- messages -----------------------------------------------------------------------------------------------------


def _network(cluster: Cluster) -> bytes:
    found = bytes.fromhex(str(cluster["a"].state()["network"]))
    assert isinstance(found, bytes)
    return found


def _tock(cluster: Cluster) -> int:
    found = cluster["a"].state()["tock"]
    assert isinstance(found, int)
    return found


def _header(node: str, tock: int, network: bytes | None, started: float = 9e9) -> Header:
    return Header(NodeName(node), Tick(2**32 - 1), Tock(tock), 0, network, Start(started, 1))


def _update(header: Header) -> tuple[str, bytes]:
    chain = ((header.node, header.tick),)
    event = Event(Path.parse("from.a"), Kind.SET, pack_value("hostile"), chain, header.tock, 1.0)
    return "update", encode_message(Update(header, (event,)))


def _ping(header: Header) -> tuple[str, bytes]:
    chain = (PingLink(header.node, header.tick, header.tock),)
    return "ping", encode_message(Ping(header, chain, "127.0.0.1:1", State.READY, 1, bytes(8)))


def _info(header: Header, names: str = "abc") -> tuple[str, bytes]:
    ticks = {NodeName(name): [header.tick] for name in names}
    return "info", encode_message(Info(header, "127.0.0.1:1", State.READY, ticks, bytes(8)))


# -- what does not decode -----------------------------------------------------------------------------------------


def test_payloads_that_are_no_messages_are_counted_each(cluster: Cluster) -> None:
    before = _sum(_transport(cluster), "bad_")
    _send(cluster, [(kind, payload) for payload in BAD_PAYLOADS.values() for kind in KINDS])
    _wait_counted(cluster, "bad_", before + len(BAD_PAYLOADS) * len(KINDS))


def test_messages_with_wrong_types_are_counted_each(cluster: Cluster) -> None:
    header = _header(STRANGER, 1, b"stranger")
    broken: list[tuple[str, bytes]] = []
    for kind, payload in (_update(header), _ping(header), _info(header)):
        fields = unpack(payload)
        assert isinstance(fields, dict)
        for name in ("node", "tick", "tock", "life"):
            broken += [(kind, pack(fields | {name: wrong})) for wrong in WRONG if type(wrong) is not type(fields[name])]
    before = _sum(_transport(cluster), "bad_")
    _send(cluster, broken)
    _wait_counted(cluster, "bad_", before + len(broken))


def test_messages_with_anything_in_any_field_do_no_harm(cluster: Cluster) -> None:
    rng = random.Random(20_000)
    header = _header(STRANGER, 1, b"stranger")
    events: list[tuple[str, bytes]] = []
    for kind, payload in (_update(header), _ping(header), _info(header)):
        fields = unpack(payload)
        assert isinstance(fields, dict)
        for name in fields:
            events += [(kind, pack(fields | {name: wrong})) for wrong in WRONG]
        for _ in range(100):
            garbled = bytearray(payload)
            garbled[rng.randrange(len(garbled))] = rng.randrange(256)
            events.append((kind, bytes(garbled)))
    before = _sum(_transport(cluster), "bad_", "heard_")
    _send(cluster, events)
    cluster.wait(
        lambda: _sum(_transport(cluster), "bad_", "heard_") >= before + len(events), "a has heard them all", 10
    )
    assert cluster["a"].is_running


def test_events_of_unknown_kinds_are_ignored(cluster: Cluster) -> None:
    before = _sum(_transport(cluster), "bad_")
    _send(cluster, [(kind, b"\xc1") for kind in ("pings", "update.x", "", "probe", "ping")])
    _wait_counted(cluster, "bad_", before + 1)


# -- what decodes, and cannot be believed -------------------------------------------------------------------------


def test_update_of_a_node_that_is_not_registered_is_dropped(cluster: Cluster) -> None:
    before = _sum(_counters(cluster), "unregistered")
    _send(cluster, [_update(_header(STRANGER, _tock(cluster) + 1000, _network(cluster)))])
    _wait_counted(cluster, "unregistered", before + 1)


@pytest.mark.parametrize("make", [_update, _ping, _info])
def test_message_of_another_network_is_dropped(cluster: Cluster, make: Maker) -> None:
    before = _sum(_counters(cluster), "foreign_network")
    _send(cluster, [make(_header("b", _tock(cluster) + 1000, b"stranger"))])
    _wait_counted(cluster, "foreign_network", before + 1)


@pytest.mark.parametrize("make", [_update, _ping, _info])
def test_message_far_ahead_of_the_clock_is_dropped(cluster: Cluster, make: Maker) -> None:
    before = _sum(_counters(cluster), "tock_jump")
    _send(cluster, [make(_header("b", TOCK_HEARD_MAX, _network(cluster)))])
    _wait_counted(cluster, "tock_jump", before + 1)
    assert _tock(cluster) < 2**32


def test_huge_ticks_from_a_node_that_is_not_registered_are_not_believed(cluster: Cluster) -> None:
    header = _header(STRANGER, _tock(cluster) + 1000, _network(cluster))
    before = _sum(_transport(cluster), "heard_info")
    _send(cluster, [_info(header)])
    cluster.wait(lambda: _sum(_transport(cluster), "heard_info") > before, "a has heard it", 30)


@pytest.mark.parametrize("make", [_ping, _info])
def test_own_name_from_another_network_is_dropped(cluster: Cluster, make: Maker) -> None:
    before = _sum(_counters(cluster), "foreign_network")
    _send(cluster, [make(_header("a", _tock(cluster) + 1000, b"stranger", started=1.0))])
    _wait_counted(cluster, "foreign_network", before + 1)


def test_flood_of_hostile_events_leaves_the_node_at_work(cluster: Cluster) -> None:
    header = _header(STRANGER, _tock(cluster) + 1000, _network(cluster))
    some = [_update(header), _ping(header), _info(header), ("ping", b"\xc1"), ("update", bytes(400))]

    async def flood() -> None:
        async with cluster.agent("a").open_rpc() as rpc:
            for _ in range(400):
                for kind, payload in some:
                    await rpc.send_event(f"distkv.{kind}", payload)

    before = _sum(_transport(cluster), "bad_")
    trio.run(flood)
    cluster.wait(lambda: _sum(_transport(cluster), "bad_") > before + 100, "a has heard of it", 30)


def test_own_name_that_nobody_else_answers_to_is_not_believed(cluster: Cluster) -> None:
    """Whoever says that he is us, and started earlier, must be there: else one event ends a server."""
    before = _sum(_transport(cluster), "bad_")
    try:
        _send(cluster, [_ping(_header("a", _tock(cluster) + 1000, _network(cluster), started=1.0)), ("ping", b"\xc1")])
        cluster.wait(
            lambda: not cluster["a"].is_running or _sum(_transport(cluster), "bad_") > before, "a heard it", 10
        )
        assert cluster["a"].is_running
    finally:
        if not cluster["a"].is_running:
            cluster["a"].kill()
            cluster.start("a")
