"""An event table on disk: a folder of Parquet files, and the manifest that says which of them count.

Knows: in which order files are written, renamed and removed, and what a broken commit leaves.  Does not know what is in
a data file (`spark.table.columns`), nor who makes them.

Invariant: at every moment, also after a crash or a power failure, `events/*.parquet` are whole files in which no event
is twice; and the next `open_table` makes of the folder the table of the last manifest, wholly (docs/event-table).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs

from distkv.errors import LogDamagedError, StorageFailedError, WrongDirectoryError
from distkv.model.event import NodeName
from distkv.model.tick_ranges import TickRanges, is_within
from distkv.spark.table.folder import SCARCE_ERRNOS, Folders, locked, translated
from distkv.spark.table.manifest import (
    EVENTS_FOLDER,
    PLAIN_FORM,
    DataFile,
    GapDecision,
    Manifest,
    commit_of,
    decode_manifest,
    file_name,
    tidy_path,
)
from distkv.spark.table.snapshot import LOCK, MANIFEST, NEW, clear_readers, damage_line, kept_folder

PARQUET: Final = ".parquet"
_OURS: Final = frozenset({MANIFEST, MANIFEST + NEW, LOCK, EVENTS_FOLDER})
_FOLDERS: Final = Folders()


@contextmanager
def open_table(
    directory: str | os.PathLike[str],
    *,
    network: bytes | None,
    path: str | None = None,
    create: bool = False,
    folders: Folders = _FOLDERS,
) -> Iterator[Table]:
    """The table in a folder, to which nobody else commits meanwhile; a broken-off commit is finished or undone.

    `network` is the id of the network whose events come in; None takes any table, of whatever path. `path`
    is the one path whose events are in the table. `create` makes a table of a folder that is empty or missing.

    Raises:
        BusyError: another job uses the folder.
        WrongDirectoryError: it is no event table, or one of another network or path.
        FormatVersionError: a newer release wrote it.
        LogDamagedError: the manifest is damaged, or a file is missing or has another size; nothing was changed.
        NoSpaceError, StorageFailedError: the disk is full, or refused something else.
        BadPathError: `path` is none.
        ValueError: `create` without `network`.
    """
    if create and network is None:
        raise ValueError("a table that is to be made needs the id of its network")
    place = os.path.abspath(directory)
    wanted = tidy_path(path)
    with translated(place):
        _check_folder(folders, place, create)
        if create and folders.size(place) is None:
            folders.make_folder(place)
            folders.sync_folder(os.path.dirname(place))
    with locked(os.path.join(place, LOCK), place):
        with translated(place):
            data = folders.read(os.path.join(place, MANIFEST))
            if data is None:
                _check_folder(folders, place, create)
                data = _begin(folders, place, Manifest(network or b"", path=wanted))
            manifest = decode_manifest(data, os.path.join(place, MANIFEST))
            _check_same(manifest, network, wanted, place)
            if damage := _damage(folders, place, manifest):
                raise LogDamagedError(damage)
            _finish(folders, place, manifest)
            clear_readers(place)
        table = Table(place, manifest, folders)
        try:
            yield table
        finally:
            table.close()


def sync_file(file: str | os.PathLike[str]) -> None:
    """Make a new data file durable, which must be done before it is committed; by whoever wrote it.

    Raises:
        NoSpaceError, StorageFailedError: the disk could not.
    """
    with translated(os.fspath(file)):
        _FOLDERS.sync_file(os.fspath(file))


class Table:
    """An open table, from `open_table`. One thread uses it at a time."""

    def __init__(self, directory: str, manifest: Manifest, folders: Folders) -> None:
        self._directory = directory
        self._manifest = manifest
        self._folders = folders
        self._ended = ""

    @property
    def directory(self) -> str:
        """The absolute name of the folder."""
        return self._directory

    @property
    def manifest(self) -> Manifest:
        """As of the last commit."""
        return self._manifest

    def files(self) -> list[str]:
        """The absolute names of all data files, in order."""
        return [self.place_of(file) for file in self._manifest.files]

    def place_of(self, file: DataFile) -> str:
        """The absolute name of a data file."""
        return self._absolute(file.name)

    def new_name(self, part: int) -> str:
        """The name of a data file of the next commit; `part` counts from 0.

        Raises:
            ValueError: there are too many.
        """
        return file_name(self._manifest.commit + 1, part)

    def new_place(self, name: str) -> str:
        """Where the content of a data file is to be written, and synced, before it is committed."""
        return self._absolute(name) + NEW

    def commit(
        self,
        added: Iterable[DataFile] = (),
        removed: Iterable[str] = (),
        *,
        ticks: TickRanges,
        gaps: TickRanges,
        forgotten: float | None = None,
        form: int = PLAIN_FORM,
        keep_s: float = 0.0,
    ) -> None:
        """Take in new files, whose content lies at `new_place`, and drop files which they supersede, at once.

        `ticks` and `gaps` are those of the whole table from now on. `forgotten`: changes that were overwritten before
        this time are not in the new files any more; None: none were dropped. `form` is the newest form of events that
        any of the new files has: releases that do not know it refuse the table from then on. `keep_s`: so long the
        superseded files are kept, for readers that took the manifest before.

        Raises:
            NoSpaceError: the disk is full. The table is as before, and the same commit may be tried again.
            StorageFailedError: a new file is not there as described, and the table as before; or the disk failed, and
                the next `open_table` finds out whether the commit counts.
            ValueError: what would come of it is no table; nothing was changed.
        """
        added, removed = list(added), list(removed)
        manifest = self._after(added, removed, ticks, gaps, forgotten, form)
        if self._ended:
            raise StorageFailedError(self._ended)
        with translated(self._directory):
            for file in added:
                self._check_new(file)
            self._write(manifest)
            self._manifest = manifest
            # While this lasts, the folder lags behind the manifest; the next `open_table` would do the same.
            events = os.path.join(self._directory, EVENTS_FOLDER)
            superseded = [self._absolute(name) for name in removed]
            if superseded and keep_s > 0:
                _keep(self._folders, events, superseded, kept_folder(self._directory, keep_s))
            else:
                _remove(self._folders, events, superseded)
            _rename(self._folders, events, [self._absolute(file.name) for file in added])
        self._ended = ""

    def note(
        self, *, until: Mapping[NodeName, float] | None = None, decision: GapDecision | None = None
    ) -> None:
        """Write down what is known of the table besides its events: up to when it has all of a node, or that gaps are
        settled. It counts as no commit.

        Raises:
            NoSpaceError: the disk is full, and nothing was changed.
            StorageFailedError: the disk failed, and the next `open_table` finds out whether it was written.
        """
        now = self._manifest
        settled = now.settled if decision is None else (*now.settled, decision)
        manifest = attrs.evolve(now, until={**now.until, **(until or {})}, settled=settled)
        if manifest == now:
            return
        if self._ended:
            raise StorageFailedError(self._ended)
        with translated(self._directory):
            self._write(manifest)
        self._manifest, self._ended = manifest, ""

    def close(self) -> None:
        """Commit nothing any more: the folder may be another job's."""
        self._ended = f"the table in {self._directory} is closed: open it again"

    def _absolute(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _after(
        self,
        added: list[DataFile],
        removed: list[str],
        ticks: TickRanges,
        gaps: TickRanges,
        forgotten: float | None,
        form: int,
    ) -> Manifest:
        """The manifest of the next commit."""
        now = self._manifest
        if not is_within(now.ticks, ticks):
            raise ValueError("a commit must have all ticks that the table has")
        if unknown := set(removed) - {file.name for file in now.files}:
            raise ValueError(f"the table has no {min(unknown)} that could be removed")
        if other := [file.name for file in added if commit_of(file.name) != now.commit + 1]:
            raise ValueError(f"{other[0]} has not a name of commit {now.commit + 1}")
        times = [time for time in (now.forgotten, forgotten) if time is not None]
        return attrs.evolve(
            now,
            commit=now.commit + 1,
            files=[*(file for file in now.files if file.name not in removed), *added],
            ticks=ticks,
            gaps=gaps,
            forgotten=max(times, default=None),
            events=max(now.events, form),
        )

    def _check_new(self, file: DataFile) -> None:
        size = self._folders.size(self.new_place(file.name))
        if size != file.size_bytes:
            found = "is missing" if size is None else f"has {size} bytes"
            raise StorageFailedError(
                f"{self.new_place(file.name)} {found} instead of having {file.size_bytes}: nothing was changed; start "
                "the job again"
            )

    def _write(self, manifest: Manifest) -> None:
        """Up to the moment from which the commit counts."""
        try:
            self._folders.sync_folder(os.path.join(self._directory, EVENTS_FOLDER))  # the names of the new files
            new = _prepare(self._folders, self._directory, manifest)
        except OSError as error:
            if error.errno not in SCARCE_ERRNOS:  # A sync that failed once may lie when it is repeated.
                self._ended = _unknown(self._directory)
            raise
        # Whatever fails from here on, it is the next `open_table` that sees what the disk has of it.
        self._ended = _unknown(self._directory)
        self._folders.rename(new, os.path.join(self._directory, MANIFEST))
        self._folders.sync_folder(self._directory)
        clear_readers(self._directory)  # a job may run for weeks


def _unknown(place: str) -> str:
    return f"the disk failed in a commit to {place}: open the table again, which finishes or undoes it"


# -- steps on the folder ------------------------------------------------------------------------------------------


def _prepare(folders: Folders, place: str, manifest: Manifest) -> str:
    """Write the next manifest beside the present one; the name of the file."""
    new = os.path.join(place, MANIFEST + NEW)
    folders.write(new, manifest.encode())
    folders.sync_file(new)
    return new


def _remove(folders: Folders, folder: str, files: list[str]) -> None:
    """Remove files, durably: else after a power failure they could stand beside those that supersede them."""
    for file in files:
        folders.remove(file)
    if files:
        folders.sync_folder(folder)


def _keep(folders: Folders, folder: str, files: list[str], kept: str) -> None:
    """Move files out of the folder, durably, as `_remove`."""
    for place in (os.path.dirname(kept), kept):
        if folders.size(place) is None:
            folders.make_folder(place)
    for file in files:
        folders.rename(file, os.path.join(kept, os.path.basename(file)))
    folders.sync_folder(folder)


def _rename(folders: Folders, folder: str, files: list[str]) -> None:
    """Give committed files their names, under which everybody sees them."""
    for file in files:
        folders.rename(file + NEW, file)
    if files:
        folders.sync_folder(folder)


# -- opening ------------------------------------------------------------------------------------------------------


def _check_folder(folders: Folders, place: str, create: bool) -> None:
    """Whether there is a table, or may be one. Also looked at before the lock, which is a file of its own."""
    names = set(folders.names(place))
    if MANIFEST in names:
        return
    # What is left of a table whose making was broken off is as good as empty.
    if names - _OURS or folders.names(os.path.join(place, EVENTS_FOLDER)):
        raise WrongDirectoryError(f"{place} is no event table, and not empty: name the folder of one, or an empty one")
    if not create:
        raise WrongDirectoryError(f"there is no event table in {place}: name the folder of one")


def _begin(folders: Folders, place: str, manifest: Manifest) -> bytes:
    """Make an empty folder a table; the bytes of its manifest."""
    if folders.size(os.path.join(place, EVENTS_FOLDER)) is None:
        folders.make_folder(os.path.join(place, EVENTS_FOLDER))
        folders.sync_folder(place)
    folders.rename(_prepare(folders, place, manifest), os.path.join(place, MANIFEST))
    folders.sync_folder(place)
    return manifest.encode()


def _check_same(manifest: Manifest, network: bytes | None, path: str | None, place: str) -> None:
    """Whether it is the table that is meant."""
    if network is not None and manifest.network != network:
        raise WrongDirectoryError(
            f"{place} is the event table of network {manifest.network.hex()}, not of {network.hex()}: name another "
            "folder, or hosts of that network"
        )
    if manifest.path != path and (network is not None or path is not None):
        raise WrongDirectoryError(
            f"{place} is an event table of {_paths(manifest.path)}, not of {_paths(path)}: name another folder, or "
            "what this one is of"
        )


def _paths(path: str | None) -> str:
    return "all paths" if path is None else f"the path {path!r}"


def _damage(folders: Folders, place: str, manifest: Manifest) -> str | None:
    """What is wrong with the first file that is missing or has another size."""
    for file in manifest.files:
        name = os.path.join(place, file.name)
        size = folders.size(name)
        if size is None:
            size = folders.size(name + NEW)  # of a commit that was broken off
        if size != file.size_bytes:
            return damage_line(name, size, file)
    return None


def _finish(folders: Folders, place: str, manifest: Manifest) -> None:
    """Bring the files, none of which is damaged, in line with the manifest."""
    events = os.path.join(place, EVENTS_FOLDER)
    present = {f"{EVENTS_FOLDER}/{name}" for name in folders.names(events)}
    committed = [file.name for file in manifest.files if file.name not in present]
    keep = {file.name for file in manifest.files}.difference(committed).union(name + NEW for name in committed)
    left = sorted(name for name in present - keep if name.endswith((PARQUET, PARQUET + NEW)))
    for name in left:
        if commit_of(name.removesuffix(NEW)) is None:
            raise WrongDirectoryError(
                f"{os.path.join(place, name)} is not of this table, but would be read with it: move it elsewhere"
            )
    if folders.size(events) is None:  # copies of a table without events may lack it
        folders.make_folder(events)
        folders.sync_folder(place)
    if folders.size(os.path.join(place, MANIFEST + NEW)) is not None:
        folders.remove(os.path.join(place, MANIFEST + NEW))
    if left or committed:
        # Until this, the manifest of a commit that was broken off can be seen, and yet go in a power failure.
        folders.sync_folder(place)
    _remove(folders, events, [os.path.join(place, name) for name in left])
    _rename(folders, events, [os.path.join(place, name) for name in committed])
