"""A node's store that takes random inputs, and the log of it.

Knows: which inputs there are, and which records a node logs for each.  Does not know how a log is kept.

Invariant: the same history and chance give the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import attrs

from distkv.core.ready import PathChange
from distkv.core.update import TOCK_MARGIN, Store
from distkv.model.event import Event, Kind, NodeName, Tock
from distkv.model.tree import Applied
from distkv.wire.message import EventRecord, Record
from distkv.wire.values import pack_value
from tests.property.histories import PATHS, History, picture, tree_of

ME = NodeName("me")


@attrs.define
class Run:
    """A store, its log, and what it looked like after each step."""

    store: Store
    history: History
    chance: random.Random
    log: list[Record] = attrs.field(factory=list)
    looks: list[tuple[int, dict[str, object], int]] = attrs.field(factory=list)
    """(length of the log, the state, the tock) after each step."""
    _closed: list[Event] = attrs.field(factory=list)

    def step(self) -> tuple[list[Record], list[PathChange]]:
        """One random input: its records in the order in which a node logs them, and what they changed."""
        self._closed = []
        doings: list[Callable[[], list[Record]]] = [self._hear, self._hear, self._hear, self._hear_all, self._write]
        doings += [self._write, self._learn, self._learn, self._hear_ticks, self._lose, self._live, self._register]
        doings += [self._say, *self._stones_gone(), self._expire, self._keep, self._keep, self._doubt]
        if self.chance.random() < 0.05:
            doings = [self.store.reset]
        records = self.chance.choice(doings)()
        records += self.store.raise_ceiling(bool(records))
        self.log += records
        self.looks.append((len(self.log), look_of(self.store), self.store.tock))
        return records, [PathChange(event, False, (event,)) for event in self._closed]

    def _logged(self, *applied: Applied) -> list[Record]:
        return [EventRecord(one.event, 0.0) for one in applied if one.changed]

    def _some(self) -> list[Event]:
        return self.chance.sample(self.history.events, min(len(self.history.events), 3))

    def _hear(self) -> list[Record]:
        return self._logged(*map(self.store.remote, self._some()))

    def _hear_all(self) -> list[Record]:
        return self._logged(*map(self.store.remote, self.history.events))

    def _write(self) -> list[Record]:
        if self.store.own.life is None:
            return []
        kind = self.chance.choice([Kind.SET, Kind.SET, Kind.DELETE])
        value = pack_value(self.chance.randrange(99)) if kind is Kind.SET else b""
        ttl = self.chance.choice([None, 2.5]) if kind is Kind.SET else None
        return self._logged(self.store.write(self.chance.choice(PATHS), kind, value, 1.0, ttl=ttl))

    def _expire(self) -> list[Record]:
        heads = [entry.head for entry in self.store.tree.entries() if entry.is_live and not entry.head.path.is_reserved]
        if self.store.own.life is None or not heads:
            return []
        return self._logged(self.store.expire(self.chance.choice(heads), 1.0))

    def _learn(self) -> list[Record]:
        tree = tree_of(e for e in self.history.events if self.chance.random() < 0.7)
        records, self._closed[:] = self.store.learn_known(tree.superseded())
        return records

    def _hear_ticks(self) -> list[Record]:
        self.store.hear_ticks(tree_of(self._some()).ledger.ticks().items())
        return []

    def _say(self) -> list[Record]:
        """Messages leave: each has a new tock, and none has a record."""
        self.store.tock = Tock(self.store.tock + self.chance.randrange(TOCK_MARGIN))
        return []

    def _lose(self) -> list[Record]:
        return self.store.mark_lost(self.store.tree.ledger.missing())

    def _stones_gone(self) -> list[Callable[[], list[Record]]]:
        """Forgetting a tombstone, one way for each: so of a few steps one is like to be a purge."""
        stones = [entry.head.path for entry in self.store.tree.entries() if not entry.is_live and not entry.conflicts()]
        return [partial(self.store.purge, path) for path in stones]

    def _keep(self) -> list[Record]:
        """A service promises something, or keeps a row."""
        key, value = self.chance.choice("xyz"), self.chance.choice([None, b"1", b"2"])
        if self.chance.random() < 0.3:
            return [*self.store.kept.keep("s", key, value)]
        return [*self.store.data.keep(self.chance.choice("st"), key, value)]

    def _doubt(self) -> list[Record]:
        """The disk is found to be an old one, or a service has made that good."""
        return [*self.store.data.make_good("s"), *self.store.data.make_good("t")] or [*self.store.data.mark_old()]

    def _live(self) -> list[Record]:
        return self.store.own.begin_life(self.store.registry.next_life(ME, self.chance.randrange(100), self.chance))

    def _register(self) -> list[Record]:
        if self.store.own.life is None:
            return []
        name = self.chance.choice([ME, NodeName("a")])
        return self._logged(self.store.register(name, self.chance.randrange(9), "h:1", float(self.chance.randrange(9))))


def look_of(store: Store) -> dict[str, object]:
    """All that two stores must have in common to be the same node; comparable with ==."""
    lost = {node: ranges.to_list() for node, ranges in store.tree.ledger.lost().items()}
    registry = dict(sorted(store.registry.nodes.items()))
    data = {row: store.data.find(*row) for row in sorted(store.data.rows())}
    own = {"tick": store.own.tick, "life": store.own.life, "registry": registry}
    return {**picture(store.tree), "lost": lost, **own, "slots": dict(store.slots), "data": data}


def ran(history: History, chance: random.Random, steps: int) -> Run:
    """A node that has founded a network and taken so many random inputs."""
    run = Run(Store(ME, chance.choice([2, 3, 5])), history, chance)
    run.log += run.store.own.begin_life(0)
    for applied in run.store.found_network(b"12345678", pack_value("root"), 5.0):
        run.log.append(EventRecord(applied.event, 0.0))
    run.looks.append((len(run.log), look_of(run.store), run.store.tock))
    for _ in range(steps):
        run.step()
    return run


def replayed(log: list[Record]) -> Store:
    """The node that a log leads to."""
    store = Store(ME, 5)
    for record in log:
        store.replay(record)
    store.replayed()
    return store
