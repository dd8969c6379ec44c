"""Three whole nodes with real files, stopped or killed, and what their directories say while they are intact.

Knows: what a network has lived through whose disks are worth damaging: overwrites, deletions, conflicts, a second life,
names that are no text, a value of many pages.  Does not know how files are damaged, nor what follows (`damage`).

Invariant: all three hold the same in each moment that is kept, and nothing in a kept directory is ever changed.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from distkv.core.replica import Replica
from distkv.daemon.directory import Directory
from distkv.engine.commit import Committer
from distkv.engine.settler import Settler
from distkv.model.event import Event, Link, NodeName
from distkv.storage.archive import ARCHIVE_NAME, open_archive
from distkv.storage.archive_copy import write_copy
from distkv.storage.archive_rows import HistoryRow
from distkv.storage.disk import DirectoryDisk
from distkv.storage.log import open_log
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_record
from distkv.wire.states import encode_book, encode_entry, path_key
from tests.node.nodes import SEGMENT_BYTES, Node, World, new_replica, new_world, run

NAMES = ("a", "b", "c")
BINARY = [b"\x00\xff\x00", -1, "ü"]
"""Names of a path that are no plain text."""
BIG = "big" * 10_000
DAY_S = 86_400


# -- one directory ------------------------------------------------------------------------------------------------


@attrs.frozen
class Opened:
    """A directory as a starting node has it."""

    directory: Directory
    replica: Replica
    settler: Settler


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open and load a node's directory as the daemon does, but for the log's small segments. Raises what that does."""
    with ExitStack() as stack:
        archive = open_archive(str(path / ARCHIVE_NAME))
        stack.callback(archive.close)
        log = open_log(
            DirectoryDisk(str(path)),
            settled_lsn=archive.settled_lsn,
            settled_segment=archive.segment,
            segment_bytes=SEGMENT_BYTES,
        )
        stack.callback(log.close)
        replica = new_replica(path.name)
        settler = Settler(replica.store, Committer(log), archive, log, run_blocking=at_once)
        directory = Directory(str(path), log, archive)
        directory.load_into(replica.store, settler)
        yield Opened(directory, replica, settler)


async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    """A stand-in for a thread that works on the archive, without an event loop."""
    return function(*arguments)


def answer(question: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine comes to that never waits."""
    try:
        question.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def state_of(replica: Replica) -> tuple[object, ...]:
    """All that a node holds, in a form that compares equal for equal states only. The tock goes on at the ceiling."""
    tree = replica.tree
    entries = {path_key(entry.head.path): encode_entry(entry) for entry in tree.entries()}
    books = {writer: encode_book(book) for writer, book in tree.ledger.writers()}
    return entries, books, tree.digest, tree.live_count, attrs.evolve(replica.store.meta(), tock=0)


def shown(replica: Replica) -> dict[bytes, bytes]:
    """What people see: winners and open losers by path, but for the system's own paths."""
    entries = (entry for entry in replica.tree.entries() if not entry.head.path.is_reserved)
    # What an entry remembers of the superseded is none of their business, and may differ from node to node.
    return {path_key(entry.head.path): _winner_and_losers(entry) for entry in entries if entry.is_live or entry.losers}


def _winner_and_losers(entry: Any) -> bytes:
    return repr([content_of(event) for event in (entry.head, *entry.losers)]).encode()


def content_of(event: Event) -> tuple[object, ...]:
    """What a tick stands for, wherever it is met; its chain may be cut shorter on the way."""
    return event.link, event.path.names, event.kind, event.value, event.tock, event.ttl


# -- a moment -----------------------------------------------------------------------------------------------------


@attrs.frozen
class Moment:
    """The directories of all three nodes, and what node a's reads as while it is intact."""

    name: str
    path: Path
    state: tuple[object, ...]
    shown: dict[bytes, bytes]
    rows: list[HistoryRow]
    """The history, oldest first."""
    known: dict[Link, tuple[object, ...]]
    """What each tick stands for that was ever on one of the three."""
    older: list[bytes]
    """Earlier contents of the archive's file, each consistent in itself."""

    def copy_to(self, path: Path, names: str) -> None:
        """Fresh copies of some of the directories."""
        for name in names:
            shutil.rmtree(path / name, ignore_errors=True)
            shutil.copytree(self.path / name, path / name)


def _moment(name: str, path: Path, older: list[bytes]) -> Moment:
    trial = path.parent / "read"
    shutil.copytree(path, trial)
    known: dict[Link, tuple[object, ...]] = {}
    for node in NAMES[::-1]:
        with opened(trial / node) as found:
            rows = history(found)
            known |= {event.link: content_of(event) for event in events(rows)}
            state, seen = state_of(found.replica), shown(found.replica)
    shutil.rmtree(trial)
    return Moment(name, path, state, seen, rows, known, older)


def history(found: Opened) -> list[HistoryRow]:
    """All of it, whether it is settled or not."""
    return [*sorted({*found.directory.archive.past.rows()}), *found.settler.recent()]


def events(rows: Iterable[HistoryRow]) -> list[Event]:
    """What the rows of a history tell."""
    records = [decode_record(row.record) for row in rows]
    return [record.event for record in records if isinstance(record, EventRecord)]


# -- the network --------------------------------------------------------------------------------------------------


def build(path: Path) -> list[Moment]:
    """Let a network live, and keep four moments of it below `path`."""
    older: list[bytes] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            await _live(world, path, older)
            nursery.cancel_scope.cancel()

    run(main)
    # A file that was just settled is held back for the one where a page is as it was before.
    return [_moment(name, path / name, older) for name in ("stopped", "killed", "settled", "checkpointed")]


async def start(world: World, path: Path, name: str, **options: Any) -> Node:
    """Start a node in its directory below `path`."""
    (path / name).mkdir(parents=True, exist_ok=True)
    archive = str(path / name / ARCHIVE_NAME)
    return await world.start(name, archive=archive, disk=DirectoryDisk(str(path / name)), **options)


async def stop(node: Node) -> None:
    """It has settled all it has, and ended."""
    assert node.driver.settler is not None
    await node.driver.settler.settle()
    await node.kill()


async def _live(world: World, path: Path, older: list[bytes]) -> None:
    live = path / "live"
    for name in NAMES:
        await start(world, live, name, init="root" if name == "a" else None)
        await world.ready(name)
    await _write_some(world, older, live)
    await _contest(world)
    await _wipe_c(world, live)
    await _fill_segments(world)
    await world.converged(*NAMES)

    for name in NAMES:
        await stop(world.nodes[name])
    _keep(live, path / "stopped")
    older.append((live / "a" / ARCHIVE_NAME).read_bytes())

    for name in NAMES:
        await start(world, live, name)
    await world.ready(*NAMES)
    await _write_late(world, 0)
    await _settle_all(world)
    _keep(live, path / "settled")  # in the WAL, and nothing unsettled in the log
    await _write_late(world, 1)
    await _settle_all(world)
    await _write_late(world, 2)
    _keep(live, path / "killed")  # with a tail of the log that is not settled
    await _settle_all(world)
    with closing(sqlite3.connect(live / "a" / ARCHIVE_NAME)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    await _write_late(world, 3)
    _keep(live, path / "checkpointed")  # the file has what the WAL has


def _keep(live: Path, path: Path) -> None:
    """Copy all directories as a kill leaves them: what is in the memory that SQLite shares does not outlive it."""
    shutil.copytree(live, path, ignore=shutil.ignore_patterns("*-shm", "lock"))


async def _settle_all(world: World) -> None:
    for name in NAMES:
        settler = world.nodes[name].driver.settler
        assert settler is not None
        await settler.settle()


async def _write_some(world: World, older: list[bytes], live: Path) -> None:
    for turn in range(4):
        for name in NAMES:
            async with world.nodes[name].client() as client:
                for number in range(12):
                    await client.set(f"{name}.n{number}.value", [turn, "x" * (40 * number)])
                await client.ask("set_value", path=[*BINARY, name], value={"turn": turn})
                await client.set("shared", [name, turn])
                await client.set("big", f"{BIG}{turn}{name}")
                await client.set("later", turn, ttl=10 * DAY_S)
                for number in range(turn, 12, 4):
                    await client.ask("delete_value", path=[name, f"n{number}", "value"])
        await world.converged(*NAMES)
        await _settle_all(world)
        copy = live / "older"
        archive = world.nodes["a"].opened
        assert archive is not None
        write_copy(archive.path, str(copy))
        older.append(copy.read_bytes())
        copy.unlink()


async def _contest(world: World) -> None:
    """Conflicts that stay open, of values and of deletions, one of them decided."""
    world.network.partition(*([NodeName(name)] for name in NAMES))
    for name in NAMES:
        async with world.nodes[name].client() as client:
            for number in range(6):
                await client.set(f"contest.n{number}", f"{name} says {number}")
        async with world.nodes["b"].client() as client:
            await client.ask("delete_value", path=["contest", "n1"])
    world.network.heal()
    await world.converged(*NAMES)
    async with world.nodes["b"].client() as client:
        await client.set("contest.n5", "decided")
    await world.converged(*NAMES)


async def _wipe_c(world: World, live: Path) -> None:
    """Node c loses its disk and goes on under a second life."""
    await stop(world.nodes["c"])
    shutil.rmtree(live / "c")
    await start(world, live, "c")
    await world.ready("c")
    async with world.nodes["c"].client() as client:
        await client.set("c.anew", 1)
    await world.converged(*NAMES)


async def _fill_segments(world: World) -> None:
    """So that the log has come to a later segment, which begins with what is settled."""
    async with world.nodes["b"].client() as client:
        for number in range(3):
            await client.set("big", f"{BIG}{number}")


async def _write_late(world: World, turn: int) -> None:
    for name in NAMES:
        async with world.nodes[name].client() as client:
            await client.set(f"late.{name}", turn)
            await client.set(f"{name}.n{turn + 1}.value", ["late", turn])
            await client.ask("delete_value", path=[name, f"n{turn + 5}", "value"])
    await world.converged(*NAMES)


