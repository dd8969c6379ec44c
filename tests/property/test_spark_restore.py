"""Two trees side by side: each path once, in order, and what differs about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.client.questions import Entry
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.index import place_of
from distkv.model.path import Path
from distkv.spark.nodes.differences import Difference, differences
from distkv.wire.values import pack_value, unpack_value
from tests.property import strategies

pytestmark = pytest.mark.slow

trees = st.dictionaries(strategies.few_paths | strategies.paths, strategies.small_raw_values, max_size=8)


def entry_of(raw: bytes) -> Entry:
    return Entry(unpack_value(raw), ((NodeName("a"), Tick(1)),), Tock(1), 0.0)


def in_order(tree: dict[Path, bytes]) -> list[tuple[Path, bytes]]:
    return sorted(tree.items(), key=lambda item: place_of(item[0].key))


def compared(then: dict[Path, bytes], now: dict[Path, bytes]) -> list[Difference]:
    return list(differences(in_order(then), ((path, entry_of(raw)) for path, raw in in_order(now))))


@given(trees, trees)
def test_each_path_comes_once_with_both_values(then: dict[Path, bytes], now: dict[Path, bytes]) -> None:
    found = compared(then, now)
    assert [(one.path, one.then, one.now and pack_value(one.now.value)) for one in found] == [
        (path, then.get(path), now.get(path)) for path, _ in in_order({**then, **now})
    ]


@given(trees, trees)
def test_only_equal_values_are_the_same(then: dict[Path, bytes], now: dict[Path, bytes]) -> None:
    same = {one.path for one in compared(then, now) if one.is_same}
    assert same == {path for path, raw in then.items() if now.get(path) == raw}


@given(strategies.raw_values)
def test_every_value_is_the_same_as_itself(raw: bytes) -> None:
    assert Difference(Path(["x"]), raw, entry_of(raw)).is_same


def test_value_that_a_peer_packed_in_another_way_is_the_same() -> None:
    """One in nine bytes, which a node of ours would store in one."""
    wide = b"\xcf" + (1).to_bytes(8, "big")
    assert Difference(Path(["x"]), wide, entry_of(wide)).is_same
