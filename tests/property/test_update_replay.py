"""Replaying the records that a store produced gives the same state, wherever the log ends (core/update.py)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.update import Store
from distkv.model.event import Event, Kind, NodeName, Tick, life_of
from distkv.model.fence import NO_FENCE
from distkv.model.path import Path
from distkv.wire.values import unpack_value
from tests.profiles import examples
from tests.property.histories import PATHS, History, assert_consistent, histories
from tests.property.store_runs import ME, look_of, ran, replayed

pytestmark = pytest.mark.slow

few = examples(20)


@few
@given(histories(), st.randoms(use_true_random=False), st.integers(0, 12))
def test_replay_after_any_step_gives_the_state_of_then(history: History, chance: random.Random, steps: int) -> None:
    run = ran(history, chance, steps)
    for length, look, _ in run.looks:
        assert look_of(replayed(run.log[:length])) == look


@few
@given(histories(), st.randoms(use_true_random=False), st.integers(0, 12))
def test_replay_goes_on_above_every_tock_and_own_tick_that_was_used(
    history: History, chance: random.Random, steps: int
) -> None:
    run = ran(history, chance, steps)
    for length, look, tock in run.looks[1:]:
        store = replayed(run.log[:length])
        assert store.tock >= tock
        assert store.own.tick == look["tick"]
        own = [e.link[1] for e in store.tree.present(store.tree.ledger.held()) if e.node == ME]
        assert all(tick <= store.own.tick for tick in own if life_of(tick) == store.own.life)


@few
@given(histories(), st.randoms(use_true_random=False), st.integers(1, 12), st.integers(0, 1 << 16))
def test_replay_of_a_log_cut_anywhere_gives_a_consistent_state(
    history: History, chance: random.Random, steps: int, cut: int
) -> None:
    log = ran(history, chance, steps).log
    store = replayed(log[: cut % (len(log) + 1)])
    assert_consistent(store.tree)


@few
@given(histories(), st.randoms(use_true_random=False))
def test_ticks_and_tocks_only_rise_and_no_tick_is_used_twice(history: History, chance: random.Random) -> None:
    """A tick names one change for ever, and a tock is never used again (docs/protocol, TICK-1, TOCK-1)."""
    store = Store(ME, 5)
    store.own.begin_life(3)
    ticks, tocks = [], []
    for event in history.events:
        store.remote(event)
        if chance.random() < 0.3:
            tocks.append(store.tock)
            path = chance.choice(PATHS)
            head = store.tree.head(path)
            fence = NO_FENCE if head is None else head.fence  # as a write has it that is taken (FENCE-2)
            applied = store.write(path, Kind.SET, b"\x01", 0.0, fence=fence)
            ticks.append(applied.event.tick)
            tocks.append(applied.event.tock)
            assert applied.won
    assert ticks == [Tick((3 << 32) + n) for n in range(1, len(ticks) + 1)]
    assert all(tocks[i] < tocks[i + 1] for i in range(0, len(tocks), 2))
    assert tocks == sorted(tocks)


@few
@given(st.randoms(use_true_random=False))
def test_registry_does_not_depend_on_the_order_of_events(chance: random.Random) -> None:
    path = Path((None, "node", "a"))
    writers = [Store(NodeName(name), 3) for name in "xyz"]
    made: list[Event] = []
    for count in range(12):
        writer = chance.choice(writers)
        for event in chance.sample(made, len(made) // 2):
            writer.remote(event)
        life, since = chance.randrange(4), chance.randrange(4)
        made.append(writer.register(NodeName("a"), life, f"h:{count}", since).event)
    stores = [Store(ME, 3), Store(ME, 3)]
    for store in stores:
        for event in chance.sample(made, len(made)):
            store.remote(event)
    entry = stores[0].tree.get(path)
    assert entry is not None
    youngest = max(stores[0].registry.nodes.values(), key=lambda r: (r.life, r.since))
    assert stores[0].registry.nodes == stores[1].registry.nodes
    assert youngest.addr in {str(_addr(event)) for event in (entry.head, *entry.losers)}


def _addr(event: Event) -> object:
    value = unpack_value(event.value)
    return value["addr"] if isinstance(value, dict) else None
