"""The data directory of a node: the log and the archive it is settled into.

Knows: in which order the two are locked, opened, read and closed.  Does not know what the records do.

Invariant: nobody else uses the directory between opening and closing; what was settled is loaded first, and the log's
tail is replayed on top of it.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from operator import length_hint
from typing import Final, TypeAlias

import attrs

from distkv.config import Config
from distkv.core.archived import ArchivedState
from distkv.core.update import Store
from distkv.daemon.access import check_access, explained, make_directory
from distkv.engine.asides import AsideKeeper
from distkv.engine.settler import Settler, path_of
from distkv.errors import DecodeError, DistkvError, LogDamagedError, place_of
from distkv.model.entry import Entry
from distkv.model.event import Kind, Link, NodeName, Tick
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.storage.archive import ARCHIVE_NAME, BACKUP_NAME, Archive, open_archive
from distkv.storage.archive_connection import damaged
from distkv.storage.archive_rows import DamagedRow, StateRow, data_damage
from distkv.storage.base import Log, Recovered
from distkv.storage.disk import DirectoryDisk
from distkv.storage.log import open_log
from distkv.wire.message import EventRecord, Record
from distkv.wire.records import decode_record
from distkv.wire.states import decode_book, decode_entry, decode_meta, path_key, read_path_key

log = logging.getLogger("distkv.daemon")

Replay: TypeAlias = Callable[[Record], Sequence[Path]]
"""Repeats a record; returns the paths whose entries it may have changed."""


@attrs.frozen
class Directory:
    """Both stores of one node, open."""

    path: str
    log: Log
    archive: Archive

    def load_into(
        self, state: Store, settler: Settler, replay: Replay | None = None, aside: AsideKeeper | None = None
    ) -> None:
        """Bring a fresh node to where the node stopped; the settler hears of what the archive has not. `replay` is used
        instead of that of the state; `aside` knows which rows failed before.

        Raises:
            LogDamagedError: something that is whole cannot be read.
            WrongDirectoryError: it is another node's.
        """
        began = time.perf_counter()
        gc.disable()  # a hundred thousand new objects that all stay: looking for garbage among them doubles the time
        try:
            is_damaged = self._load_state(state, aside)
            count = self._replay(state.replay if replay is None else replay, settler)
            if is_damaged:
                settler.rewrite()
        except DecodeError as error:
            raise LogDamagedError(
                f"{self.path}: what is stored is whole but cannot be read: {error}; was it written by a newer release?"
                " Start with that one, or move the directory aside and start this node empty: it joins again"
            ) from error
        finally:
            gc.enable()
        gc.freeze()
        _give_back_memory()
        seconds = time.perf_counter() - began
        log.info("loaded entries=%d replayed=%d seconds=%.2f", len(state.tree), count, seconds)

    def _load_state(self, state: Store, aside: AsideKeeper | None) -> bool:
        """Whether something is damaged, so that all is to be settled anew."""
        archive = self.archive
        rows = archive.meta()
        if not rows:
            return False
        ledger = archive.ledger()
        slots = archive.slots()
        kept = None if slots is None else [(row.machine, row.key, row.value) for row in slots]
        found = ArchivedRows(archive, aside)
        try:
            meta = decode_meta(rows)
            books = [((NodeName(r.node), r.life), decode_book(r.life, r.book)) for r in ledger]
            state.load(ArchivedState(meta, books, found.entries(), kept, archive.data()))
        except (DistkvError, MemoryError):
            raise
        except Exception as error:
            if found.failed(error):
                raise
            reason = f"{type(error).__name__} at {place_of(error)}, from its ledger or from what it says of its node"
            raise damaged(archive.path, reason) from error
        found.loaded()
        if archive.unread_rows:
            last = dict[Path, bytes]()
            state.doubt(_seen(archive, state.tree, last))
            _name_lost(archive, last)
        elif (state.tree.digest, state.tree.live_count) != (meta.digest, meta.live_count):
            raise damaged(archive.path, "its values are not those that its digest was made of")
        state.lose(path_of(damage) for damage in archive.damage.all() if damage.is_value)
        state.data.lose(archive.lost_data)
        for lost in state.data.lost():
            archive.damage.note(data_damage(*lost))  # also what a backup, or another disk, has lost
        return bool(archive.unread_rows) or slots is None or archive.is_data_damaged

    def _replay(self, replay: Replay, settler: Settler) -> int:
        count = 0
        for first_lsn, records in self.log.replay_from(self.archive.settled_lsn):
            for lsn, data in enumerate(records, first_lsn):
                record = decode_record(data)
                settler.note_replayed(lsn, record, data, replay(record))
            count += len(records)
        return count


def _seen(archive: Archive, tree: Tree, last: dict[Path, bytes]) -> Iterator[tuple[Path, Link]]:
    """The ticks that history has, each on its path. `last` gets what last gave its value to each path without entry."""
    for row in archive.past.rows():
        path = read_path_key(row.path)
        if row.won and tree.head(path) is None:
            last[path] = row.record
        yield path, (NodeName(row.node), Tick(row.tick))


def _name_lost(archive: Archive, last: Mapping[Path, bytes]) -> None:
    """Where the path of a lost value cannot be read, history tells it, if it is whole: the path had a value, and has no
    entry any more."""
    nameless = {damage for damage in archive.damage.all() if damage.is_value and path_of(damage) is None}
    if not nameless or archive.past.begin:
        return
    for path, data in last.items():
        record = decode_record(data)
        if isinstance(record, EventRecord) and record.event.kind is Kind.SET:
            archive.damage.note(DamagedRow.of_value(path_key(path)))
    archive.damage.forget(nameless)


def _say_damage(damage: DamagedRow) -> None:
    path = path_of(damage)
    if damage.is_slot:
        does = "services of this node begin without what they kept"
    elif damage.is_data:
        does = "it is written again, or its service is told what is lost"
    elif damage.is_page:
        does = "what is left there is written anew soon"
    elif damage.is_past:
        does = "that part of the past is lost here"
    else:
        does = "it counts as not there, and is to come back"
    log.error("row_damaged place=%s path=%s: %s", damage.place, "unreadable" if path is None else path, does)


def _say_recovered(recovered: Recovered) -> None:
    if recovered.torn_bytes:
        log.warning("torn_tail_cut bytes=%d at=%s", recovered.torn_bytes, recovered.torn_at)
    if recovered.damage:
        log.warning("log_damaged reason=%s", recovered.damage)
    if recovered.cut:
        log.warning("log_cut reason=%s", recovered.cut)


def _give_back_memory() -> None:
    """Let the system have what reading left free: up to 20 MB, which the C library keeps as soon as a program has once
    freed pieces as large as a segment. A library without the call (it is glibc's) keeps them."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def open_directory(config: Config, *, cut_damage: bool = False) -> Iterator[Directory]:
    """The stores of `config.data_dir`, made if there are none, closed at the end.

    With `cut_damage` a damaged log goes on with what is whole: the directory is then older than it was.

    Raises:
        SettingsError: the directory cannot be made.
        StorageError: it is in use, not to be read or written, damaged, or of another release.
    """
    path = config.data_dir
    make_directory(path)
    with ExitStack() as stack:
        with explained(path):
            disk = DirectoryDisk(str(path))
            stack.callback(disk.close)
            disk.lock()
            check_access(path)
            for left in path.glob(f"{BACKUP_NAME}*"):
                left.unlink()
        archive = open_archive(str(path / ARCHIVE_NAME), _say_damage)
        stack.callback(archive.close)
        settled_lsn, settled_segment = archive.settled_lsn, archive.segment
        store = open_log(
            disk, settled_lsn=settled_lsn, settled_segment=settled_segment, locked=True, cut_damage=cut_damage
        )
        stack.callback(store.close)
        _say_recovered(store.recovered)
        yield Directory(str(path), store, archive)


DECODE_ROWS: Final = 256


class ArchivedRows:
    """The values of the archive on their way into a node that starts, and which of them a failure is about.

    Invariant: a row that is left out counts as damaged: it is named, and its value is lost (docs/protocol, ASIDE-8)."""

    def __init__(self, archive: Archive, aside: AsideKeeper | None) -> None:
        self._archive: Final = archive
        self._aside: Final = aside
        self._part: Sequence[StateRow] = ()
        self._entries: Iterator[Entry] | None = None
        """Of the part what was not handed over yet; None: it is being decoded."""

    def entries(self) -> Iterator[Entry]:
        """All of them, some at a time: one by one they take a fifth longer, because each step drives the others out of
        the cache."""
        rows = self._kept()
        while part := list(islice(rows, DECODE_ROWS)):
            self._part, self._entries = part, None
            self._entries = iter([decode_entry(row.entry) for row in part])
            yield from self._entries
        self._part, self._entries = (), iter(())

    def failed(self, error: Exception) -> bool:
        """Whoever took them failed, or could not be given one: remember which row that was about; False: about none."""
        row = self._last()
        if row is not None and self._aside is not None:
            self._aside.row_failed(row.path, error)
        return row is not None

    def loaded(self) -> None:
        """All were taken."""
        if self._aside is not None and self._aside.has_rows:
            self._aside.rows_loaded()

    # -- inside

    def _kept(self) -> Iterator[StateRow]:
        aside = self._aside
        if aside is None or not aside.has_rows:
            yield from self._archive.load()
            return
        for row in self._archive.load():
            if aside.is_row_left_out(row.path):
                self._archive.leave_out(DamagedRow.of_value(row.path))
            else:
                yield row

    def _last(self) -> StateRow | None:
        if self._entries is not None:
            return self._part[len(self._part) - length_hint(self._entries) - 1] if self._part else None
        for row in self._part:
            try:
                decode_entry(row.entry)
            except Exception:  # whatever it is, it was this one
                return row
        return None
