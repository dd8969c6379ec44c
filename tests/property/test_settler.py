"""Whatever was settled when, and however often the node was killed: the next start has all of it, and history too."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path as OsPath
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.ready import PathChange
from distkv.core.update import Store
from distkv.daemon.directory import Directory
from distkv.engine.commit import Committer
from distkv.engine.missed import MISSED_KEY
from distkv.engine.settler import SETTLE_BYTES, SETTLE_RECORDS, RunBlocking, Settler
from distkv.errors import BusyError, DistkvError, NoSpaceError, StorageFailedError, WrongDirectoryError
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.storage.archive import Archive, open_archive
from distkv.storage.archive_rows import HistoryRow
from distkv.storage.log import open_log
from distkv.storage.memory import MemoryDisk
from distkv.wire.message import EventRecord, KnownRecord, LifeRecord, Record
from distkv.wire.records import decode_record, encode_record
from distkv.wire.states import path_key
from distkv.wire.values import pack_value
from tests.node.nodes import run as run_in_virtual_time
from tests.profiles import examples
from tests.property.histories import History, assert_consistent, histories
from tests.property.store_runs import ME, Run, look_of, ran, replayed

pytestmark = pytest.mark.slow

SEGMENT_BYTES = 4096
UNSETTLED_MAX = 2 * SETTLE_RECORDS


async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
    """A stand-in for a thread."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


@attrs.define
class Host:
    """A data directory, and the process that has it open."""

    path: str
    chain_length: int
    disk: MemoryDisk = attrs.field(factory=MemoryDisk)
    name: NodeName = ME
    settle_by: RunBlocking = inline
    """How the settler reaches archive and log."""
    store: Store = attrs.field(init=False)
    archive: Archive = attrs.field(init=False)
    committer: Committer = attrs.field(init=False)
    settler: Settler = attrs.field(init=False)

    def start(self) -> None:
        """Open what there is, and load it."""
        self.archive = open_archive(self.path)
        settled_lsn, settled_segment = self.archive.settled_lsn, self.archive.segment
        log = open_log(
            self.disk, settled_lsn=settled_lsn, settled_segment=settled_segment, segment_bytes=SEGMENT_BYTES
        )
        self.store = Store(self.name, self.chain_length)
        self.committer = Committer(log, run_blocking=inline, clock=trio.current_time)
        self.settler = Settler(
            self.store, self.committer, self.archive, log, run_blocking=self._run_blocking, unsettled_max=UNSETTLED_MAX
        )
        Directory(self.path, log, self.archive).load_into(self.store, self.settler)

    async def settle_and_die(self) -> None:
        """Settle, but be killed before the log lets go of anything."""

        async def die_before_drop(function: Callable[..., Any], *arguments: Any) -> Any:
            if function != self.archive.settle:
                raise StorageFailedError("killed")
            return await inline(function, *arguments)

        settle_by, self.settle_by = self.settle_by, die_before_drop
        with pytest.raises(StorageFailedError, match="killed"):
            await self.settler.settle()
        self.settle_by = settle_by
        self.kill()

    async def _run_blocking(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await self.settle_by(function, *arguments)

    def kill(self) -> None:
        """End without another word."""
        self.archive.close()
        self.disk = self.disk.after_power_loss()

    async def take(self, records: list[Record], changes: list[PathChange]) -> None:
        """What a step decided is logged, durably."""
        encoded = [encode_record(record) for record in records]
        self.committer.append(encoded, self.store.own.tick)
        self.settler.note(records, encoded, changes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.committer.run)
            await self.committer.wait_durable(self.committer.appended)
            nursery.cancel_scope.cancel()

    def history(self, records: list[Record]) -> list[HistoryRow]:
        """What the archive and the settler have of the paths in `records`, in order of lsn."""
        paths = {path_key(record.event.path) for record in records if isinstance(record, EventRecord)}
        found = [row for path in paths for row in self.archive.past.of_path(path, 10_000)]
        recent = [row for row in self.settler.recent() if row.path != MISSED_KEY]
        return sorted([*found, *recent], key=lambda row: row.lsn)


def expected_history(records: list[Record]) -> list[tuple[int, bytes]]:
    return [(lsn, encode_record(record)) for lsn, record in enumerate(records) if isinstance(record, EventRecord)]


async def go_through(run: Run, host: Host, steps: int) -> None:
    """Inputs, settlings and kills in random order; after each kill the node is what its log says."""
    host.start()
    host.store.replay(run.log[0])
    for record in run.log[1:]:
        host.store.replay(record)
    await host.take(list(run.log), [])
    run.store = host.store
    for _ in range(steps):
        what = run.chance.random()
        if what < 0.6:
            await host.take(*run.step())
        elif what < 0.8:
            await host.settler.settle()
        else:
            if what < 0.9:
                await host.settle_and_die()
            else:
                host.kill()
            host.start()
            run.store = host.store
            check(run, host)
    host.kill()
    host.start()
    check(run, host)
    host.archive.close()


def check(run: Run, host: Host) -> None:
    """The node after its start is the one that its whole log leads to."""
    assert_consistent(host.store.tree)
    assert [(row.lsn, row.record) for row in host.history(run.log)] == expected_history(run.log)
    host.store.replayed()
    whole = replayed(run.log)
    assert look_of(host.store) == look_of(whole)
    assert host.store.registry.network == whole.registry.network
    assert host.store.tock >= whole.tock


@given(histories(), st.randoms(use_true_random=False), st.integers(0, 30))
@examples(37)
def test_node_that_settled_and_was_killed_anywhere_is_what_its_whole_log_says(
    history: History, chance: random.Random, steps: int
) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as directory:
            host = Host(f"{directory}/state.sqlite", chance.choice([2, 3, 5]))
            await go_through(ran(history, chance, 0), host, steps)

    run_in_virtual_time(main)


def two_at_once() -> list[Event]:
    """Two sets of one path that did not know each other: the first is the open loser."""
    chains = [((NodeName("a"), Tick(1)),), ((NodeName("b"), Tick(1)),)]
    return [Event(Path(["x"]), Kind.SET, b"\x01", chain, Tock(5 + at), 1.0) for at, chain in enumerate(chains)]


@pytest.mark.parametrize("killed_between", [False, True])
def test_loser_that_was_closed_by_hearsay_after_it_was_settled_stays_closed(
    killed_between: bool, tmp_path: OsPath
) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        loser, winner = two_at_once()
        events = [EventRecord(host.store.remote(event).event, 0.0) for event in (loser, winner)]
        await host.take(list(events), [])
        await host.settler.settle()
        known, closed = host.store.learn_known({loser.node: Ranges([(1, 2)])})
        await host.take(known, [PathChange(event, False, (event,)) for event in closed])
        if killed_between:
            host.kill()
            host.start()
        await host.settler.settle()
        host.kill()
        host.start()
        assert list(host.store.tree.open_losers()) == []
        assert look_of(host.store) == look_of(replayed([*events, *known]))
        host.archive.close()

    run_in_virtual_time(main)


def test_record_that_the_archive_has_not_stays_in_the_log(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        log: list[Record] = [*host.store.own.begin_life(0)]
        for number in range(200):  # several segments of the log
            log.append(EventRecord(host.store.write(Path([str(number)]), Kind.SET, b"\x01", 1.0).event, 0.0))
            await host.take(log[-2 if number == 0 else -1 :], [])
        settle_by = host.settle_by

        async def die_in_between(function: Callable[..., Any], *arguments: Any) -> Any:
            if function == host.archive.settle:
                raise StorageFailedError("killed")
            return await settle_by(function, *arguments)

        host.settle_by = die_in_between
        with pytest.raises(StorageFailedError, match="killed"):
            await host.settler.settle()
        host.settle_by = settle_by
        host.kill()
        host.start()
        assert look_of(host.store) == look_of(replayed(log))
        host.archive.close()

    run_in_virtual_time(main)


def test_change_is_in_history_once_while_the_loop_hears_late_that_it_was_settled(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)

        async def heard_late(function: Callable[..., Any], *arguments: Any) -> Any:
            found = await inline(function, *arguments)
            if function == host.archive.settle:
                await trio.sleep(1)
            return found

        host.settle_by = heard_late
        host.start()
        applied = [host.store.remote(event) for event in two_at_once()]
        await host.take([EventRecord(one.event, 0.0) for one in applied], [PathChange(applied[1].event, True, ())])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.settler.settle)
            await trio.sleep(0.5)
            assert host.archive.settled_lsn == len(host.settler.recent()) == 2
            assert [row.lsn for row in await host.settler.history(Path(["x"]), 10)] == [1, 0]
            assert [row.lsn for row in await host.settler.won_since(0, 10) or []] == [1]
        host.archive.close()

    run_in_virtual_time(main)


@pytest.mark.parametrize("is_killed", [False, True])
def test_who_goes_on_is_told_what_was_missed_and_not_what_was_closed(is_killed: bool, tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        loser, winner = two_at_once()
        await host.take([EventRecord(host.store.remote(event).event, 0.0) for event in (loser, winner)], [])
        missed = {winner.node: Ranges([(2, 5)])}
        known, closed = host.store.learn_known({loser.node: Ranges([(1, 2)]), **missed})
        await host.take(known, [PathChange(event, False, (event,)) for event in closed])
        if is_killed:
            host.kill()
            host.start()
        records = [decode_record(row.record) for row in await host.settler.won_since(0, 10) or []]
        assert [record for record in records if isinstance(record, KnownRecord)] == [KnownRecord(missed)]
        host.archive.close()

    run_in_virtual_time(main)


def test_who_goes_on_is_told_of_what_won_and_is_not_settled(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        applied = [host.store.remote(event) for event in reversed(two_at_once())]
        assert [one.won for one in applied] == [True, False]
        changes = [PathChange(one.event, one.won, one.closed) for one in applied]
        await host.take([EventRecord(one.event, 0.0) for one in applied], changes)
        assert [row.lsn for row in await host.settler.won_since(0, 10) or []] == [0]
        host.archive.close()

    run_in_virtual_time(main)


@pytest.mark.parametrize("is_gone", [False, True], ids=["sent", "its-client-is-gone"])
def test_copy_for_a_backup_is_there_until_it_was_sent(is_gone: bool, tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        await host.take([EventRecord(host.store.remote(two_at_once()[0]).event, 0.0)], [])
        before = os.listdir(tmp_path)
        for _ in range(2):
            with trio.CancelScope() as client:
                async with host.settler.backup() as path:
                    assert set(os.listdir(tmp_path)) - set(before) == {os.path.basename(path)}
                    if is_gone:
                        client.cancel()
                        await trio.sleep_forever()
            assert sorted(os.listdir(tmp_path)) == sorted(before)
        host.archive.close()

    run_in_virtual_time(main)


def test_tombstone_that_was_purged_after_it_was_settled_stays_gone(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        log: list[Record] = [*host.store.own.begin_life(0)]
        written = [host.store.write(Path(["x"]), kind, b"", 1.0) for kind in (Kind.SET, Kind.DELETE)]
        log += [EventRecord(applied.event, 0.0) for applied in written]
        await host.take(list(log), [])
        await host.settler.settle()
        purged = host.store.purge(Path(["x"]))
        await host.take(purged, [])
        await host.settler.settle()
        host.kill()
        host.start()
        assert host.store.tree.get(Path(["x"])) is None
        assert look_of(host.store) == look_of(replayed([*log, *purged]))
        host.archive.close()

    run_in_virtual_time(main)


@pytest.mark.parametrize("error", [NoSpaceError("full"), BusyError("locked")])
def test_archive_that_cannot_take_a_stretch_gets_it_later_with_what_came_since(
    error: DistkvError, tmp_path: OsPath
) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        refusals = [error, error]

        async def short(function: Callable[..., Any], *arguments: Any) -> Any:
            if refusals and function == host.archive.settle:
                raise refusals.pop()
            return await inline(function, *arguments)

        host.settle_by = short
        host.start()
        log: list[Record] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.settler.run)
            for event in two_at_once():
                record = EventRecord(host.store.remote(event).event, 0.0)
                log.append(record)
                await host.take([record], [])
                await trio.sleep(3)
            assert len(host.settler.recent()) == 2
            await trio.sleep(20)
            assert host.settler.recent() == []
            nursery.cancel_scope.cancel()
        host.kill()
        host.start()
        check(Run(host.store, History(), random.Random(), log), host)
        host.archive.close()

    run_in_virtual_time(main)


def test_settling_waits_until_the_log_has_what_is_settled(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        record = EventRecord(host.store.remote(two_at_once()[0]).event, 0.0)
        host.committer.append([encode_record(record)], 0)
        host.settler.note([record], [encode_record(record)], [])
        await host.settler.settle()
        assert host.committer.is_idle
        host.kill()
        host.start()
        assert look_of(host.store) == look_of(replayed([record]))
        host.archive.close()

    run_in_virtual_time(main)


def test_reset_that_the_archive_could_not_take_is_not_forgotten(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        refusals: list[DistkvError] = []

        async def short(function: Callable[..., Any], *arguments: Any) -> Any:
            if refusals and function == host.archive.settle:
                raise refusals.pop()
            return await inline(function, *arguments)

        host.settle_by = short
        host.start()
        log: list[Record] = [EventRecord(host.store.remote(two_at_once()[0]).event, 0.0)]
        await host.take(list(log), [])
        await host.settler.settle()
        log += host.store.reset()
        await host.take(log[1:], [])
        refusals.append(NoSpaceError("full"))
        with pytest.raises(NoSpaceError):
            await host.settler.settle()
        log.append(LifeRecord(ME, 3))
        host.store.own.begin_life(3)
        await host.take(log[2:], [])
        await host.settler.settle()
        host.kill()
        host.start()
        check(Run(host.store, History(), random.Random(), log), host)
        host.archive.close()

    run_in_virtual_time(main)


def test_what_the_archive_could_not_take_before_a_reset_is_not_state_after_it(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)

        async def refuse(*_: object) -> Any:
            raise NoSpaceError("full")

        host.start()
        log: list[Record] = [EventRecord(host.store.remote(two_at_once()[0]).event, 0.0)]
        await host.take(list(log), [])
        host.settle_by = refuse
        with pytest.raises(NoSpaceError):
            await host.settler.settle()
        host.settle_by = inline
        log += host.store.reset()
        await host.take(log[1:], [])
        await host.settler.settle()
        assert list(host.archive.load()) == []
        host.kill()
        host.start()
        check(Run(host.store, History(), random.Random(), log), host)
        host.archive.close()

    run_in_virtual_time(main)


def test_what_a_cut_chain_forgot_is_settled_with_the_event(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 2)
        host.start()
        links = [(NodeName(name), Tick(1)) for name in "abc"]
        chains = [(links[0],), (links[1], links[0]), (links[2], links[1])]  # the third does not say that it knew a's
        events = [Event(Path(["x"]), Kind.SET, b"\x01", chain, Tock(at), 1.0) for at, chain in enumerate(chains, 5)]
        log: list[Record] = [EventRecord(host.store.remote(event).event, 0.0) for event in events]
        await host.take(log, [])
        await host.settler.settle()
        host.kill()
        host.start()
        entry = host.store.tree.get(Path(["x"]))
        assert entry is not None
        assert entry.memory is not None
        check(Run(host.store, History(), random.Random(), log), host)
        host.archive.close()

    run_in_virtual_time(main)


def test_archive_that_failed_ends_the_node(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)

        async def fail(*_: object) -> Any:
            raise StorageFailedError("the disk is gone")

        host.settle_by = fail
        host.start()
        await host.take([EventRecord(host.store.remote(two_at_once()[0]).event, 0.0)], [])
        with pytest.raises(StorageFailedError, match="the disk is gone"):
            await host.settler.run()
        assert len(host.settler.recent()) == 1
        host.archive.close()

    run_in_virtual_time(main)


def test_archive_of_another_node_is_refused(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        await host.take(host.store.own.begin_life(0), [])
        await host.settler.settle()
        host.kill()
        host.name = NodeName("other")
        with pytest.raises(WrongDirectoryError, match="belongs to the node me"):
            host.start()
        host.archive.close()

    run_in_virtual_time(main)


def test_writes_are_refused_while_too_much_waits_for_the_archive(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        host.settler.check_room()
        host.store.own.begin_life(0)
        made = [host.store.write(Path(["x"]), Kind.SET, b"\x01", 1.0) for _ in range(UNSETTLED_MAX + 1)]
        records: list[Record] = [EventRecord(applied.event, 0.0) for applied in made]
        await host.take(records[:-1], [])
        host.settler.check_room()
        await host.take(records[-1:], [])
        with pytest.raises(NoSpaceError, match="wait for the archive"):
            host.settler.check_room()
        await host.settler.settle()
        host.settler.check_room()
        host.archive.close()

    run_in_virtual_time(main)


def test_settler_that_is_cancelled_settles_the_rest(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.settler.run)
            await host.take([EventRecord(host.store.remote(two_at_once()[0]).event, 0.0)], [])
            nursery.cancel_scope.cancel()
        assert host.settler.statistics()["settled_lsn"] == 1
        host.archive.close()

    run_in_virtual_time(main)


def test_few_large_records_are_settled_at_once(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        host.store.own.begin_life(0)
        value = pack_value("x" * 1_000_000)
        enough = SETTLE_BYTES // len(value) + 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.settler.run)
            made = [host.store.write(Path([str(number)]), Kind.SET, value, 1.0) for number in range(enough)]
            await host.take([EventRecord(applied.event, 0.0) for applied in made[:-1]], [])
            await trio.sleep(0.1)
            assert host.settler.statistics()["settled_lsn"] == 0
            await host.take([EventRecord(made[-1].event, 0.0)], [])
            await trio.sleep(0.1)
            assert host.settler.statistics()["settled_lsn"] == enough
            nursery.cancel_scope.cancel()
        host.archive.close()

    run_in_virtual_time(main)


def test_full_batch_is_settled_at_once(tmp_path: OsPath) -> None:
    async def main() -> None:
        host = Host(str(tmp_path / "state.sqlite"), 5)
        host.start()
        host.store.own.begin_life(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.settler.run)
            made = [host.store.write(Path(["x"]), Kind.SET, b"\x01", 1.0) for _ in range(SETTLE_RECORDS)]
            await host.take([EventRecord(applied.event, 0.0) for applied in made], [])
            await trio.sleep(0.1)
            assert host.settler.statistics()["settled_lsn"] == SETTLE_RECORDS
            assert host.settler.statistics()["log_segments"] == 1
            nursery.cancel_scope.cancel()
        host.archive.close()

    run_in_virtual_time(main)
