"""Replaying the records that a store produced gives the same state, wherever the log ends (core/update.py)."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from distkv.core.update import TOCK_MARGIN, Store
from distkv.model.event import Event, Kind, NodeName, Tick, Tock, life_of
from distkv.model.path import Path
from distkv.model.tree import Applied
from distkv.wire.message import EventRecord, Record
from distkv.wire.values import pack_value, unpack_value
from tests.property.histories import PATHS, History, assert_consistent, histories, picture, tree_of

ME = NodeName("me")

few = settings(max_examples=80, deadline=None)


@attrs.define
class Run:
    """A store, its log, and what it looked like after each step."""

    store: Store
    history: History
    chance: random.Random
    log: list[Record] = attrs.field(factory=list)
    looks: list[tuple[int, dict[str, object], int]] = attrs.field(factory=list)
    """(length of the log, the state, the tock) after each step."""

    def step(self) -> None:
        """One random input, with its records in the order in which a node logs them."""
        doings: list[Callable[[], list[Record]]] = [self._hear, self._hear, self._hear, self._hear_all, self._write]
        doings += [self._write, self._learn, self._learn, self._hear_ticks, self._lose, self._live, self._register]
        doings += [self._say]
        if self.chance.random() < 0.05:
            doings = [self.store.reset]
        records = self.chance.choice(doings)()
        self.log += records + self.store.ceiling(bool(records))
        self.looks.append((len(self.log), _look(self.store), self.store.tock))

    def _logged(self, *applied: Applied) -> list[Record]:
        return [EventRecord(one.event, 0.0) for one in applied if one.changed]

    def _some(self) -> list[Event]:
        return self.chance.sample(self.history.events, min(len(self.history.events), 3))

    def _hear(self) -> list[Record]:
        return self._logged(*map(self.store.remote, self._some()))

    def _hear_all(self) -> list[Record]:
        return self._logged(*map(self.store.remote, self.history.events))

    def _write(self) -> list[Record]:
        if self.store.life is None:
            return []
        kind = self.chance.choice([Kind.SET, Kind.SET, Kind.DELETE])
        value = pack_value(self.chance.randrange(99)) if kind is Kind.SET else b""
        return self._logged(self.store.write(self.chance.choice(PATHS), kind, value, 1.0))

    def _learn(self) -> list[Record]:
        tree = tree_of(e for e in self.history.events if self.chance.random() < 0.7)
        return self.store.learn_known(tree.superseded())[0]

    def _hear_ticks(self) -> list[Record]:
        self.store.hear_ticks(tree_of(self._some()).ledger.ticks().items())
        return []

    def _say(self) -> list[Record]:
        """Messages leave: each has a new tock, and none has a record."""
        self.store.tock = Tock(self.store.tock + self.chance.randrange(TOCK_MARGIN))
        return []

    def _lose(self) -> list[Record]:
        return self.store.mark_lost(self.store.tree.ledger.missing())

    def _live(self) -> list[Record]:
        return self.store.begin_life(self.store.next_life(ME, self.chance.randrange(100)))

    def _register(self) -> list[Record]:
        if self.store.life is None:
            return []
        name = self.chance.choice([ME, NodeName("a")])
        return self._logged(self.store.register(name, self.chance.randrange(9), "h:1", self.chance.randrange(9)))


def _look(store: Store) -> dict[str, object]:
    lost = {node: ranges.to_list() for node, ranges in store.tree.ledger.lost().items()}
    registry = dict(sorted(store.registry.items()))
    return {**picture(store.tree), "lost": lost, "tick": store.tick, "life": store.life, "registry": registry}


def _ran(history: History, chance: random.Random, steps: int) -> Run:
    run = Run(Store(ME, chance.choice([2, 3, 5])), history, chance)
    run.log += run.store.begin_life(0)
    for applied in run.store.found_network(b"12345678", pack_value("root"), 5.0):
        run.log.append(EventRecord(applied.event, 0.0))
    run.looks.append((len(run.log), _look(run.store), run.store.tock))
    for _ in range(steps):
        run.step()
    return run


def _replayed(log: list[Record]) -> Store:
    store = Store(ME, 5)
    for record in log:
        store.replay(record)
    store.replayed()
    return store


@few
@given(histories(), st.randoms(use_true_random=False), st.integers(0, 12))
def test_replay_after_any_step_gives_the_state_of_then(history: History, chance: random.Random, steps: int) -> None:
    run = _ran(history, chance, steps)
    for length, look, _ in run.looks:
        assert _look(_replayed(run.log[:length])) == look


@few
@given(histories(), st.randoms(use_true_random=False), st.integers(0, 12))
def test_replay_goes_on_above_every_tock_and_own_tick_that_was_used(
    history: History, chance: random.Random, steps: int
) -> None:
    run = _ran(history, chance, steps)
    for length, look, tock in run.looks[1:]:
        store = _replayed(run.log[:length])
        assert store.tock >= tock
        assert store.tick == look["tick"]
        own = [e.link[1] for e in store.tree.present(store.tree.ledger.held()) if e.node == ME]
        assert all(tick <= store.tick for tick in own if life_of(tick) == store.life)


@few
@given(histories(), st.randoms(use_true_random=False), st.integers(1, 12), st.integers(0, 1 << 16))
def test_replay_of_a_log_cut_anywhere_gives_a_consistent_state(
    history: History, chance: random.Random, steps: int, cut: int
) -> None:
    log = _ran(history, chance, steps).log
    store = _replayed(log[: cut % (len(log) + 1)])
    assert_consistent(store.tree)


@few
@given(histories(), st.randoms(use_true_random=False))
def test_ticks_and_tocks_only_rise_and_no_tick_is_used_twice(history: History, chance: random.Random) -> None:
    store = Store(ME, 5)
    store.begin_life(3)
    ticks, tocks = [], []
    for event in history.events:
        store.remote(event)
        if chance.random() < 0.3:
            tocks.append(store.tock)
            applied = store.write(chance.choice(PATHS), Kind.SET, b"\x01", 0.0)
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
    youngest = max(stores[0].registry.values(), key=lambda r: (r.life, r.since))
    assert stores[0].registry == stores[1].registry
    assert youngest.addr in {str(_addr(event)) for event in (entry.head, *entry.losers)}


def _addr(event: Event) -> object:
    value = unpack_value(event.value)
    return value["addr"] if isinstance(value, dict) else None
