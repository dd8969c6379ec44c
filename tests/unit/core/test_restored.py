"""A node that starts from a backup (docs/protocol.rst, LIFE-3)."""

from __future__ import annotations

import random

import attrs
import pytest

from distkv.core.archived import ArchivedState
from distkv.core.ready import CoreSettings
from distkv.core.replica import Replica
from distkv.core.update import Store
from distkv.model.event import NodeName, life_of
from distkv.wire.message import LifeRecord, Start
from distkv.wire.values import pack_value

ME = NodeName("a")


def started(*, restored: bool, wall: float, alone: bool = True) -> tuple[Replica, list[int]]:
    """A node whose network was founded at 1000, started from what was archived; and the lives that it began."""
    store = Store(ME, 5)
    store.own.begin_life(0)
    store.found_network(b"12345678", pack_value("root"), 1000.0)
    store.register(ME, 0, "a:1", 1000.0)
    replica = Replica(CoreSettings(ME, "a:1", Start(wall, 1), alone=alone), random.Random(0))
    meta = attrs.evolve(store.meta(), restored=restored)
    replica.store.load(ArchivedState(meta, store.tree.ledger.writers(), list(store.tree.entries())))
    ready = replica.begin(0, wall)
    return replica, [record.life for record in ready.records if isinstance(record, LifeRecord)]


def test_restored_node_begins_a_life_that_nobody_heard_of_and_registers_it() -> None:
    replica, begun = started(restored=True, wall=5000.0)
    assert begun == [4000]
    assert life_of(replica.tick) == replica.life == 4000
    assert replica.registry.nodes[ME].life == 4000


@pytest.mark.parametrize("wall", [500.0, 1000.0])
def test_restored_node_with_a_clock_that_stands_back_begins_another_life_still(wall: float) -> None:
    (life,) = started(restored=True, wall=wall)[1]
    assert life > 0


def test_node_that_is_not_restored_goes_on_in_its_life() -> None:
    replica, begun = started(restored=False, wall=5000.0)
    assert begun == []
    assert replica.life == 0


def test_restored_mark_goes_with_the_next_settlement() -> None:
    assert not started(restored=True, wall=5000.0)[0].store.meta().restored


def test_restored_node_that_ends_before_it_is_ready_keeps_the_mark() -> None:
    replica, begun = started(restored=True, wall=5000.0, alone=False)
    assert begun == []
    assert replica.store.meta().restored
