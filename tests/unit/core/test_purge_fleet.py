"""Deletions are forgotten by a whole fleet: a few replicas in virtual time (docs/protocol.rst, PURGE-1 to PURGE-6)."""

from __future__ import annotations

import attrs
import pytest

from distkv.core.client_writes import RetireNode
from distkv.core.ready import AskMaps, HeardMessage, PeerAnswered, PeerDone
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.wire.message import PurgeRecord, Update
from tests.fleet import Fleet

RETENTION_MS = 20_000
B = NodeName("b")


def fleet_of(*names: str, seed: int = 0) -> Fleet:
    fleet = Fleet(seed)
    fleet.start(names[0], init="root", delete_retention_ms=RETENTION_MS)
    fleet.run(5100)
    for name in names[1:]:
        start(fleet, name)
    assert fleet.run_until(fleet.is_converged, 20_000)
    return fleet


def start(fleet: Fleet, name: str) -> None:
    fleet.start(name, delete_retention_ms=RETENTION_MS)


def deleted(fleet: Fleet, count: int = 3) -> int:
    """Values that everybody has, each deleted by another node; and when."""
    names = [*fleet.hosts]
    for number in range(count):
        fleet.set(names[0], f"p{number}", number)
    fleet.run(500)
    for number in range(count):
        fleet.set(names[number % len(names)], f"p{number}", None)
    return fleet.now_ms


def kept(fleet: Fleet) -> list[int]:
    return [host.live.tree.tombstone_count for host in fleet.running()]


@pytest.mark.parametrize("names", ["a", "ab", "abc", "abcde"])
def test_deletions_are_forgotten_everywhere_within_two_clocks_behind_their_time(names: str) -> None:
    fleet = fleet_of(*names)
    at_ms = deleted(fleet)
    fleet.run(RETENTION_MS - 1000)
    assert kept(fleet) == [3] * len(names)
    assert fleet.run_until(lambda: not any(kept(fleet)), 11_000)
    assert fleet.now_ms - at_ms <= RETENTION_MS + 10_000
    assert fleet.is_converged()
    assert all(host.live.tree.ledger.is_whole for host in fleet.running())


def test_forgotten_deletions_stay_so_after_a_restart() -> None:
    fleet = fleet_of("a", "b")
    deleted(fleet)
    assert fleet.run_until(lambda: not any(kept(fleet)), 60_000)
    fleet.crash("b")
    start(fleet, "b")
    assert kept(fleet) == [0, 0]
    assert sum(isinstance(record, PurgeRecord) for record in fleet.records("b")) == 3


def test_restart_does_not_begin_the_time_anew() -> None:
    fleet = fleet_of("a", "b")
    at_ms = deleted(fleet)
    fleet.run(RETENTION_MS - 8000)
    for name in "ab":
        fleet.crash(name)
        start(fleet, name)
    assert fleet.run_until(lambda: not any(kept(fleet)), 60_000)
    assert fleet.now_ms - at_ms < RETENTION_MS + 12_000


def test_nothing_is_forgotten_or_asked_for_while_a_node_is_away() -> None:
    fleet = fleet_of("a", "b", "c")
    fleet.crash("b")
    deleted_by_a(fleet)
    fleet.run(RETENTION_MS + 60_000)
    assert kept(fleet) == [1, 1]
    assert not [ask for _, _, ask in fleet.asked if isinstance(ask.what, AskMaps) and ask.what.tombstones]
    assert fleet["a"].tombstones_due == 1
    start(fleet, "b")
    assert fleet.run_until(lambda: not any(kept(fleet)) and fleet.is_converged(), 60_000)


def deleted_by_a(fleet: Fleet) -> None:
    fleet.set("a", "p", 1)
    fleet.set("a", "p", None)


def test_nobody_waits_for_a_node_that_was_retired() -> None:
    fleet = fleet_of("a", "b", "c")
    fleet.crash("b")
    deleted_by_a(fleet)
    fleet.run(RETENTION_MS)
    fleet.step("a", RetireNode(B, force=False))
    assert fleet.run_until(lambda: not any(kept(fleet)), 30_000)


def test_nothing_is_forgotten_across_a_split() -> None:
    fleet = fleet_of("a", "b", "c")
    fleet.set("a", "p", 1)
    fleet.run(500)
    fleet.partition("a", "bc")
    fleet.set("b", "p", None)
    fleet.run(RETENTION_MS + 60_000)
    assert [fleet[name].tree.tombstone_count for name in "abc"] == [0, 1, 1]
    fleet.heal()
    assert fleet.run_until(lambda: fleet.is_converged() and not any(kept(fleet)), 60_000 + RETENTION_MS)
    assert fleet["a"].tree.get(Path(("p",))) is None


def test_value_that_comes_late_from_the_air_is_not_taken_for_a_new_one() -> None:
    fleet = fleet_of("a", "b")
    update = fleet.set("a", "p", 1).messages[0]
    fleet.run(500)
    fleet.set("b", "p", None)
    assert fleet.run_until(lambda: fleet.now_ms > 0 and not any(kept(fleet)) and fleet.notes["purged"] >= 2, 60_000)
    for name in "ab":
        assert isinstance(update, Update)
        fleet.step(name, HeardMessage(update))
    assert [fleet[name].tree.get(Path(("p",))) for name in "ab"] == [None, None]


def test_path_that_was_forgotten_takes_new_values() -> None:
    fleet = fleet_of("a", "b", "c")
    deleted(fleet, 1)
    assert fleet.run_until(lambda: not any(kept(fleet)), 60_000)
    fleet.set("c", "p0", "new")
    assert fleet.run_until(fleet.is_converged, 5000)
    assert all(host.live.tree.live_count == fleet["a"].tree.live_count for host in fleet.running())
    assert not list(fleet["a"].tree.open_losers())


def test_new_value_above_a_deletion_that_only_some_forgot_leaves_no_conflict() -> None:
    fleet = Fleet(3)
    fleet.start("a", init="root", delete_retention_ms=1000)
    fleet.run(5100)
    fleet.start("b", delete_retention_ms=86_400_000)
    assert fleet.run_until(fleet.is_converged, 20_000)
    deleted_by_a(fleet)
    assert fleet.run_until(lambda: kept(fleet) == [0, 1], 30_000)
    fleet.set("a", "p", 2)
    assert fleet.run_until(fleet.is_converged, 30_000)
    assert not list(fleet["b"].tree.open_losers())


def test_joiner_learns_nothing_of_what_was_forgotten_and_holds_its_ticks() -> None:
    fleet = fleet_of("a", "b")
    deleted(fleet)
    assert fleet.run_until(lambda: not any(kept(fleet)), 60_000)
    start(fleet, "c")
    assert fleet.run_until(fleet.is_converged, 20_000)
    assert kept(fleet) == [0, 0, 0]


@pytest.mark.parametrize("is_stale", [False, True])
def test_report_of_a_node_with_an_old_disk_does_not_count(*, is_stale: bool) -> None:
    fleet = fleet_of("a", "b")
    deleted(fleet)
    fleet.run(RETENTION_MS - 2000)
    fleet.partition(["a"], ["b"])
    asks = len(fleet.asked)
    assert fleet.run_until(lambda: len(fleet.asked) > asks, 5000)
    _, asker, question = next(row for row in reversed(fleet.asked) if isinstance(row[2].what, AskMaps))
    outlived = tuple(stone.links[0] for stone in question.what.tombstones)
    report = fleet["b" if asker == "a" else "a"].maps()
    fleet.step(asker, PeerAnswered(question.id, attrs.evolve(report, outlived=outlived, is_stale=is_stale)))
    fleet.step(asker, PeerDone(question.id))
    fleet.run(1000)
    assert fleet[asker].tree.tombstone_count == 3 - (0 if is_stale else len(outlived))


def test_node_with_an_old_disk_forgets_nothing() -> None:
    fleet = fleet_of("a")
    deleted(fleet)
    fleet.crash("a")
    fleet.start("a", delete_retention_ms=RETENTION_MS, restored=True)
    fleet.run(RETENTION_MS + 20_000)
    assert fleet["a"].maps().is_stale
    assert kept(fleet) == [3]
