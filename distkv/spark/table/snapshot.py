"""An event table as of its last commit, for jobs that only read it, while others may commit to it.

Knows: how the files of one commit stay readable although a compaction replaces them: each reader has names of its own
for them, in a folder of its own, and a compaction keeps what it replaced for a time.  Does not know what is read.

A file has one content for ever, and stays on the disk as long as one of its names does. So no lock is needed: a reader
takes the manifest, and gives each file of it a second name (a hard link) before it looks at any. Where that cannot be,
as in a folder that it may only read, it uses the names that there are; then it must be quicker than a compaction.

Invariant: a reader has exactly the files of one manifest, and changes nothing that others see.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import attrs

from distkv.errors import FormatVersionError, LogDamagedError, NoSpaceError, StorageFailedError, WrongDirectoryError
from distkv.spark.table.folder import translated
from distkv.spark.table.manifest import EVENTS_FOLDER, DataFile, Manifest, decode_manifest

MANIFEST: Final = "manifest.json"
LOCK: Final = "lock"
NEW: Final = ".new"
"""The end of the name of a file that does not count yet, or whose commit is not finished."""
READERS: Final = "readers"
"""The folder in the table's with a folder for each reader, and for what each compaction replaced."""
KEPT: Final = "kept-"
"""The begin of the name of a folder with replaced files; behind it stands until when, in seconds since 1970."""
YOUNG_S: Final = 60.0
"""A folder that is younger may be one whose reader has not locked it yet."""
TRIES: Final = 20
"""So often the manifest is read again, because a compaction came between it and its files."""


@attrs.frozen
class Snapshot:
    """A table as of one commit."""

    directory: str
    """The absolute name of its folder."""
    manifest: Manifest
    damage: Mapping[str, str]
    """The names of files that are missing or have another size, each with the line that says so."""
    _places: Mapping[str, str]
    _own: str
    """The folder of this reader."""

    def files(self) -> list[str]:
        """The absolute names, as all see them, of the data files that are there, in order."""
        there = [file.name for file in self.manifest.files if file.name not in self.damage]
        names = [os.path.join(self.directory, name) for name in there]
        return [name + NEW if _is_new(name) else name for name in names]

    def place_of(self, file: DataFile) -> str:
        """Where a data file lies for this reader; it stays there until the snapshot is left."""
        return self._places[file.name]

    def shown(self, text: str) -> str:
        """A message, with the names of files as all see them."""
        return text.replace(self._own, os.path.join(self.directory, EVENTS_FOLDER))


@contextmanager
def read_table(directory: str | os.PathLike[str], *, takes_damaged: bool = False) -> Iterator[Snapshot]:
    """The table in a folder as of its last commit; others may use it meanwhile, and change it.

    With `takes_damaged` a file that is missing or has another size is no error, but told by `Snapshot.damage`.

    Raises:
        WrongDirectoryError: there is no event table.
        FormatVersionError: a newer release wrote it.
        LogDamagedError: the manifest is damaged, or a file is missing or has another size.
        NoSpaceError, StorageFailedError: the disk refused something.
    """
    place = os.path.abspath(directory)
    with _own_folder(place) as own:
        with translated(place):
            found = _taken(place, own)
        if found.damage and not takes_damaged:
            raise LogDamagedError(next(iter(found.damage.values())))
        try:
            yield found
        except (LogDamagedError, FormatVersionError, StorageFailedError, NoSpaceError) as error:
            raise type(error)(found.shown(str(error))) from error


def kept_folder(directory: str, keep_s: float) -> str:
    """Where replaced files lie from now on for so many seconds."""
    return os.path.join(directory, READERS, f"{KEPT}{int(time.time() + keep_s) + 1}")


def damage_line(place: str, size: int | None, file: DataFile) -> str:
    """How a file is not as the manifest says; `size` is None when it is missing."""
    what = "is missing" if size is None else f"has {size} bytes instead of {file.size_bytes}"
    return f"{place} {what}: nothing was changed. Take the table from a copy, or begin a new one in an empty folder"


def clear_readers(directory: str) -> None:
    """Remove folders of readers that are gone, and replaced files whose time is over."""
    readers = os.path.join(directory, READERS)
    with suppress(OSError):
        for name in os.listdir(readers):
            folder = os.path.join(readers, name)
            if _is_over(folder, name):
                shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        os.rmdir(readers)


# -- inside -------------------------------------------------------------------------------------------------------


def _taken(place: str, own: str) -> Snapshot:
    for left in reversed(range(TRIES)):
        data = _read(place)
        manifest = decode_manifest(data, os.path.join(place, MANIFEST))
        places = {file.name: _place(place, own, file) for file in manifest.files}
        damage = {file.name: line for file in manifest.files if (line := _fault(place, places[file.name], file))}
        if not damage or not left or _read(place) == data:
            break
    return Snapshot(place, manifest, damage, places, own)


def _is_new(name: str) -> bool:
    """Whether the commit of a file was broken off before it got its name."""
    return not os.path.exists(name) and os.path.exists(name + NEW)


def _read(place: str) -> bytes:
    try:
        with open(os.path.join(place, MANIFEST), "rb") as opened:
            return opened.read()
    except (FileNotFoundError, NotADirectoryError):
        why = f"there is no event table in {place}" if _is_empty(place) else f"{place} is no event table, and not empty"
        raise WrongDirectoryError(f"{why}: name the folder of one") from None


def _is_empty(place: str) -> bool:
    try:
        return not set(os.listdir(place)) - {LOCK}
    except OSError:
        return True


@contextmanager
def _own_folder(place: str) -> Iterator[str]:
    """A folder for the names of this reader, locked while it is used; where there can be none, it is missing."""
    own = os.path.join(place, READERS, uuid.uuid4().hex)
    lock = -1
    try:
        with suppress(OSError):
            if os.path.exists(os.path.join(place, MANIFEST)):
                os.makedirs(own)
                lock = os.open(os.path.join(own, LOCK), os.O_RDWR | os.O_CREAT, 0o666)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        if lock >= 0:
            os.close(lock)
        with suppress(OSError):
            os.rmdir(os.path.dirname(own))


def _place(place: str, own: str, file: DataFile) -> str:
    """Where this reader finds a file: under a name of its own, if there can be one."""
    public = os.path.join(place, file.name)
    ours = os.path.join(own, os.path.basename(public))
    if os.path.exists(ours):  # of an earlier try
        return ours
    for _ in range(2):  # a commit that is finished meanwhile renames it
        for there in (public, public + NEW, *_kept(place, public)):
            try:
                os.link(there, ours)
            except FileNotFoundError:
                if os.path.isdir(own) or not os.path.exists(there):
                    continue
                return there
            except OSError:  # a disk without such names, or somebody else's file
                return there
            return ours
    return public


def _kept(place: str, public: str) -> list[str]:
    readers = os.path.join(place, READERS)
    try:
        folders = [name for name in os.listdir(readers) if name.startswith(KEPT)]
    except OSError:
        return []
    return [os.path.join(readers, folder, os.path.basename(public)) for folder in folders]


def _fault(place: str, there: str, file: DataFile) -> str | None:
    try:
        size = os.stat(there).st_size
    except FileNotFoundError:
        size = None
    return None if size == file.size_bytes else damage_line(os.path.join(place, file.name), size, file)


def _is_over(folder: str, name: str) -> bool:
    if name.startswith(KEPT):
        until = name.removeprefix(KEPT)
        return until.isdecimal() and int(until) < time.time()
    try:
        if time.time() - os.stat(folder).st_mtime < YOUNG_S:
            return False
        lock = os.open(os.path.join(folder, LOCK), os.O_RDWR)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
