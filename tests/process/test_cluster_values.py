"""Values on their way to another node: every size, every type, and what is refused.

Knows: msgpack as it stands in the frames.  Does not know how values travel.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from distkv.model.path import Path
from distkv.wire.packing import pack_map
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value
from tests.process.cluster import Cluster, open_cluster
from tests.process.load import Wire, events_of, get_many

SIZES = (0, 1, 100, 471, 472, 473, 1_000, 10_000, 900 * 1024)
"""A stock agent takes 472 bytes of name and payload."""

FLOAT32 = bytes.fromhex("ca 3fc00000")
FLOAT64 = bytes.fromhex("cb 3ff8000000000000")

STORED = {
    "false": b"\xc2",
    "true": b"\xc3",
    "zero": b"\x00",
    "one": b"\x01",
    "int 127": b"\x7f",
    "int 128": b"\xcc\x80",
    "int 2^63-1": b"\xcf" + b"\x7f" + b"\xff" * 7,
    "int 2^64-1": b"\xcf" + b"\xff" * 8,
    "int -1": b"\xff",
    "int -2^63": b"\xd3\x80" + bytes(7),
    "float 1.5": FLOAT64,
    "float 1.0, no integer": bytes.fromhex("cb 3ff0000000000000"),
    "float -0.0": bytes.fromhex("cb 8000000000000000"),
    "float infinity": bytes.fromhex("cb 7ff0000000000000"),
    "float nan": bytes.fromhex("cb 7ff8000000000000"),
    "empty text": b"\xa0",
    "text with nul, umlaut and emoji": b"\xaaa\x00\xc3\xa4\xf0\x9f\x98\x80bc",
    "empty bytes": b"\xc4\x00",
    "bytes that are no text": b"\xc4\x02\xff\xfe",
    "empty list": b"\x90",
    "list with nil": b"\x93\xc0\x01\xa1x",
    "empty map": b"\x80",
    "map with a key of every kind": b"\x86\xc0\x01\xc3\x02\x05\x03\xcb\x40\x04"
    + bytes(6)
    + b"\x04\xa1k\x05\xc4\x01k\x06",
    "map in its own order": b"\x82\xa1b\x01\xa1a\x02",
    "256 lists": b"\x91" * 255 + b"\x90",
    "ext 0": b"\xd4\x00x",
    "ext 127": b"\xc7\x00\x7f",
    "timestamp of 32 bits": b"\xd6\xff" + b"\x01\x02\x03\x04",
    "timestamp of 64 bits": b"\xd7\xff" + b"\x00\x00\x00\x04" + b"\x01\x02\x03\x04",
    "timestamp of 96 bits, before 1970": b"\xc7\x0c\xff" + b"\x00\x00\x00\x01" + b"\xff" * 8,
}
"""Kept byte by byte."""

REPACKED = {
    "float32": (FLOAT32, FLOAT64),
    "int in too many bytes": (b"\xd3" + bytes(7) + b"\x05", b"\x05"),
    "text in too many bytes": (b"\xdb\x00\x00\x00\x01x", b"\xa1x"),
    "list in too many bytes": (b"\xdd\x00\x00\x00\x01\x01", b"\x91\x01"),
}
"""The same value in another form: one form is stored."""

REFUSED = {
    "key that is a list": b"\x81\x90\x01",
    "key that is a map": b"\x81\x80\x01",
    "keys 1 and true": b"\x82\x01\x01\xc3\x02",
    "keys 1 and 1.0": b"\x82\x01\x01\xcb\x3f\xf0" + bytes(6) + b"\x02",
    "key twice": b"\x82\xa1a\x01\xa1a\x02",
    "colliding keys within": b"\x91\x81\xa1a\x82\x01\x01\xc3\x02",
    "257 lists": b"\x91" * 256 + b"\x90",
    "ext -2": b"\xd4\xfex",
    "ext -128 within": b"\x91\xd4\x80x",
    "timestamp of 40 bits": b"\xc7\x05\xff" + bytes(5),
    "text that is no UTF-8": b"\xa2\xff\xfe",
    "text that is no UTF-8 within": b"\x91\xa1\xff",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that only hold more and more."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def _set_raw(wire: Wire, path: str, raw: bytes) -> dict[str, object]:
    fields = {"seq": wire.next_seq(), "action": "set_value", "path": list(Path.parse(path).names)}
    wire.send(pack_map(fields, {"value": raw}))
    reply = wire.receive()
    assert reply is not None
    return reply


def test_values_of_all_sizes_reach_the_others(cluster: Cluster) -> None:
    values = {f"size.n{size}": bytes(size) for size in SIZES}
    with cluster["a"].client() as client:
        for path, value in values.items():
            client.set(path, value)
    for server in cluster.others("a"):
        cluster.wait(lambda s=server: get_many(s, values) == values, f"{server.name} has all", 30)  # type: ignore[misc]


def test_values_of_all_types_reach_the_others_byte_by_byte(cluster: Cluster) -> None:
    sent = STORED | {name: raw for name, (raw, _) in REPACKED.items()}
    expected = STORED | {name: raw for name, (_, raw) in REPACKED.items()}
    with Wire(cluster["a"]) as wire:
        for number, raw in enumerate(sent.values()):
            assert "error" not in _set_raw(wire, f"type.n{number}", raw)
    cluster.wait_equal(30)
    for server in cluster:
        kept = {str(path): raw for path, _, raw in events_of(server).values()}
        assert {name: kept[f"type.n{number}"] for number, name in enumerate(expected)} == expected
        read = get_many(server, [f"type.n{number}" for number in range(len(expected))])
        assert [pack_value(value) for value in read.values()] == list(expected.values())


@pytest.mark.parametrize("size", [10, 300_000], ids=["gossiped", "pulled"])
def test_write_that_waits_for_all_nodes_is_readable_on_all_of_them_when_it_is_answered(
    cluster: Cluster, size: int
) -> None:
    path = Path.parse(f"everywhere.n{size}")
    write = SetValue(1, path, pack_value(bytes(size)))
    with Wire(cluster["b"], timeout_s=60) as wire:
        (reply,) = wire.ask([ReplicatedWrite(write, replicas=3, timeout_s=30)])
    assert reply["replicas"] == 3
    for server in cluster:
        assert get_many(server, [str(path)]) == {str(path): bytes(size)}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_value_that_would_change_is_refused(cluster: Cluster, raw: bytes) -> None:
    before = cluster["a"].state()["digest"]
    with Wire(cluster["a"]) as wire:
        reply = _set_raw(wire, "refused", raw)
        assert (reply["seq"], reply["code"]) == (1, "bad_value")
        assert cluster["a"].state()["digest"] == before
        assert "error" not in _set_raw(wire, "accepted", b"\x01"), "the connection goes on"
