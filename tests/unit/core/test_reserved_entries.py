"""What stands below `:n`, and what a wrong entry there does, now and after a restart: the rows of the table in
docs/protocol, REG-8.

Knows: the store.  That of the network is guarded where events come in: tests/unit/core/test_gossip_hostile.py.
"""

from __future__ import annotations

import re
from pathlib import Path as File
from typing import Any

import pytest

from distkv.core.registry import NETWORK_PATH, Registration, node_path, retired_path, service_path
from distkv.core.tokens.machine import TOKENS
from distkv.core.update import Store
from distkv.model.event import LIFE_MAX, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.message import EventRecord
from distkv.wire.values import pack_value
from tests.unit.core.test_token_machine import A, B, C, begun, notes

ME, OTHER = NodeName("me"), NodeName("other")
GOOD = {"life": 7, "addr": "h:1", "since": 1.0}


def event(path: Path, value: Any, tick: int = 1, kind: Kind = Kind.SET) -> Event:
    packed = pack_value(value) if kind is Kind.SET else b""
    return Event(path, kind, packed, ((OTHER, Tick(tick)),), Tock(tick), 0.0)


def stores(*events: Event) -> list[Store]:
    """A store that took these events, and one that read them from its log when it started again."""
    running, again = Store(ME, 5), Store(ME, 5)
    for one in events:
        running.remote(one)
        again.replay(EventRecord(one, 0.0))
    again.replayed()
    return [running, again]


def test_table_has_a_row_for_each_kind_of_entry() -> None:
    page = (File(__file__).parents[3] / "docs" / "protocol.rst").read_text(encoding="utf-8")
    table = page.partition("path below ``:n``")[2].partition("\n\n")[0]
    assert re.findall(r"^``(\S+)``", table, re.MULTILINE) == [
        str(NETWORK_PATH), ":n.node.NAME", ":n.retired.NAME.:LIFE", ":n.service.tokens",
    ]  # fmt: skip
    assert str(service_path(TOKENS)) == ":n.service.tokens"


@pytest.mark.parametrize(
    "addr", ["", "h:1", "127.0.0.1:65535", "[::1]:27586", "host.example:1", "hütte:1"]
)
def test_registration_with_an_address_counts(addr: str) -> None:
    for store in stores(event(node_path("b"), GOOD | {"addr": addr})):
        assert store.registry.nodes == {"b": Registration(7, addr, 1.0)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"addr": "h"}, {"addr": "h:"}, {"addr": ":1"}, {"addr": "h:65536"}, {"addr": "h:-1"}, {"addr": "h h:1"},
        {"addr": "h\n:1"}, {"addr": "\x1b[2Jh:1"}, {"addr": "h" * 300 + ":1"}, {"addr": 5}, {"addr": None},
        {"life": -1}, {"life": LIFE_MAX + 1}, {"life": 1.5}, {"life": "7"},
        {"since": float("nan")}, {"since": float("inf")}, {"since": "1"},
    ],
    ids=str,
)  # fmt: skip
def test_registration_that_cannot_be_meant_says_nothing(wrong: dict[str, object]) -> None:
    bad = event(node_path("b"), GOOD | wrong)
    for store in stores(bad):
        assert store.registry.nodes == {}
        assert store.is_void(bad)


@pytest.mark.parametrize("kind", [Kind.DELETE, Kind.EXPIRE])
def test_registration_is_deleted_by_no_event(kind: Kind) -> None:
    for store in stores(event(node_path("b"), GOOD)):
        assert store.is_void(event(node_path("b"), GOOD, 2, kind))
        assert not store.is_void(event(node_path("b"), GOOD | {"life": 8}, 2))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 64, "hütte", "\x1b[2J", "a\n"])
def test_name_that_no_node_can_have_is_neither_registered_nor_retired(name: str) -> None:
    for store in stores(event(node_path(name), GOOD), event(retired_path(name, 7), {"since": 1.0}, 2)):
        assert (store.registry.nodes, store.registry.retired) == ({}, {})


@pytest.mark.parametrize("path", [Path((None, "node")), Path((None, "node", 5)), Path((None, "node", "b", "c"))])
def test_registration_at_another_path_says_nothing(path: Path) -> None:
    for store in stores(event(path, GOOD)):
        assert store.registry.nodes == {}


@pytest.mark.parametrize("life", [-1, LIFE_MAX + 1, 1.5, "7", None, True])
def test_life_that_no_node_can_have_is_not_retired(life: Any) -> None:
    for store in stores(event(node_path("b"), GOOD), event(Path((None, "retired", "b", life)), {"since": 1.0}, 2)):
        assert store.registry.nodes == {"b": Registration(7, "h:1", 1.0)}
        assert store.registry.retired == {}


@pytest.mark.parametrize("value", [b"", b"\x00", b"\xc1", pack_value({"servers": 5}), b"\x93" * 1000])
def test_entry_of_tokens_that_cannot_be_read_is_dropped(value: bytes) -> None:
    machine, effects = begun(servers=(A, B, C), entries=(value,))
    assert "token_founding_bad" in notes(effects) or machine.wake_ms() is not None
