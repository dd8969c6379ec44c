"""A node whose disk lost an entry, nobody knows which: what it still vouches for, and what it says of itself."""

from __future__ import annotations

import attrs
import pytest

from distkv.core.archived import ArchivedState
from distkv.core.peers import answer_pull
from distkv.core.ready import AskEvents, CoreSettings
from distkv.core.replica import Replica
from distkv.core.update import Store
from distkv.errors import LogDamagedError
from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, Link, NodeName
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import ranges_of
from distkv.wire.message import StaleRecord, Start
from distkv.wire.values import pack_value

ME = NodeName("a")
X, Y = Path(("x",)), Path(("y",))


class _Rng:
    def random(self) -> float:
        return 0.5


@attrs.define
class Disk:
    """What a node that wrote at x and y, twice each, would read again."""

    store: Store = attrs.field(factory=lambda: Store(ME, 5))
    events: list[Event] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.store.own.begin_life(0)
        self.events += [one.event for one in self.store.found_network(b"12345678", pack_value("root"), 1.0)]
        for number in (1, 2):
            for path in (X, Y):
                self.events.append(self.store.write(path, Kind.SET, pack_value(number), 1.0).event)

    def entries_without(self, path: Path) -> list[Entry]:
        return [entry for entry in self.store.tree.entries() if entry.head.path != path]

    @property
    def seen(self) -> list[tuple[Path, Link]]:
        """What its history has."""
        return [(event.path, event.link) for event in self.events]

    def link(self, path: Path, number: int) -> Link:
        return [event.link for event in self.events if event.path == path][number - 1]


def damaged(disk: Disk, path: Path, *, seen: bool = True) -> Store:
    """The node that starts from what is left when the entry of a path is gone."""
    store = Store(ME, 5)
    store.load(ArchivedState(disk.store.meta(), disk.store.tree.ledger.writers(), disk.entries_without(path)))
    store.doubt(disk.seen if seen else [])
    return store


def test_tick_of_the_entry_that_is_gone_is_missing() -> None:
    disk = Disk()
    store = damaged(disk, X)
    assert not store.tree.ledger.has(disk.link(X, 2))
    assert store.tree.ledger.missing() == ranges_of([disk.link(X, 1), disk.link(X, 2)])


def test_what_was_replaced_on_a_path_that_is_whole_stays_held() -> None:
    """(docs/protocol, LIFE-21)"""
    disk = Disk()
    assert damaged(disk, X).tree.ledger.has(disk.link(Y, 1))


def test_what_no_history_shows_is_missing_unless_it_is_present() -> None:
    disk = Disk()
    ledger = damaged(disk, X, seen=False).tree.ledger
    assert (ledger.has(disk.link(Y, 1)), ledger.has(disk.link(Y, 2))) == (False, True)


def test_link_in_the_chain_of_what_is_present_stays_held() -> None:
    """(docs/protocol, LIFE-21)"""
    disk = Disk()
    other = Event(Y, Kind.SET, pack_value(3), ((NodeName("b"), 1), disk.link(Y, 2)), 99, 1.0)  # type: ignore[arg-type]
    disk.store.remote(other)
    assert damaged(disk, X, seen=False).tree.ledger.has(disk.link(Y, 2))


def test_who_asks_for_the_tick_that_is_gone_is_told_that_it_is_not_here() -> None:
    """Were it called superseded, the one who asks would hold it so, and never fetch it where it is (PULL-2)."""
    disk = Disk()
    asked = ranges_of([disk.link(X, 2)])
    _, end = answer_pull(damaged(disk, X), AskEvents(asked))
    assert (end.known, end.lacks) == ({}, asked)


def test_event_that_comes_back_is_applied() -> None:
    disk = Disk()
    store = damaged(disk, X)
    for event in disk.events:
        store.remote(event)
    assert store.tree.sums == disk.store.tree.sums


def started(disk: Disk, path: Path) -> tuple[Replica, list[object]]:
    settings = CoreSettings(ME, "a:1", Start(9.0, 1))
    replica = Replica(settings, _Rng())
    replica.store.load(ArchivedState(disk.store.meta(), disk.store.tree.ledger.writers(), disk.entries_without(path)))
    replica.store.doubt(disk.seen)
    return replica, list(replica.begin(0, 9.0).records)


def test_node_that_lost_an_entry_says_that_its_disk_is_an_old_one() -> None:
    replica, records = started(Disk(), X)
    assert StaleRecord(True) in records
    assert replica.maps().is_stale


def test_node_whose_network_cannot_be_read_does_not_start() -> None:
    disk = Disk()
    network = disk.events[0].path
    assert network not in (ROOT, X, Y)
    with pytest.raises(LogDamagedError, match="what network a belongs to"):
        damaged(disk, network)
