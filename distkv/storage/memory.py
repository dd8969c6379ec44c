"""A disk in memory that can crash, fail and run full as a real one does; for tests and the simulator.

Knows: for each file, what is durable and which writes are not yet.  Does not know what the files hold.  Deterministic:
no clock, no thread, no randomness but the seed's and what the caller passes in.

Invariant: what survives a power failure is the durable content, plus such parts of the unsynced writes as the caller's
`Tear` chose, applied in the order in which they were made, under the durable names and such others as the caller chose.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable

import attrs

from distkv.errors import DirectoryLockedError
from distkv.storage.base import SECTOR_BYTES

Tear = Callable[[int, int], Iterable[tuple[int, int]]]
"""What reached the platter of one unsynced write: from its (start, end) in the file to the parts that did."""
KeepName = Callable[[str], bool]
"""Whether a name that was created or removed since the last sync of the directory has reached the platter as it is."""


class DiskCrashed(Exception):
    """The machine lost its power in the middle of this call; whoever gets it is dead, and only a test catches it."""


def keep_all(start: int, end: int) -> Iterable[tuple[int, int]]:
    """A `Tear`: the write arrived whole."""
    return [(start, end)]


def keep_none(_start: int, _end: int) -> Iterable[tuple[int, int]]:
    """A `Tear`: the write was lost."""
    return []


def tear_at(length: int) -> Tear:
    """A `Tear`: the first `length` bytes arrived; from the end if negative, as in a slice."""

    def tear(start: int, end: int) -> Iterable[tuple[int, int]]:
        return [(start, start + len(range(end - start)[:length]))]

    return tear


def tear_by_sectors(keep: Callable[[int], bool]) -> Tear:
    """A `Tear`: of the sectors that the write touches, those arrived for whose number in the file `keep` says so."""

    def tear(start: int, end: int) -> Iterable[tuple[int, int]]:
        for sector in range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            if keep(sector):
                yield max(start, sector * SECTOR_BYTES), min(end, (sector + 1) * SECTOR_BYTES)

    return tear


@attrs.define
class _PendingWrite:
    start: int
    data: bytes


@attrs.define
class _FileContent:
    """One file: what a reader sees, what is durable, and the writes that make the difference."""

    cached: bytearray = attrs.Factory(bytearray)
    durable: bytearray = attrs.Factory(bytearray)
    unsynced: list[_PendingWrite] = attrs.Factory(list)
    name_is_durable: bool = False


@attrs.define
class DiskFaults:
    """What goes wrong next. `operations` counts creations, removals, writes and syncs; a preallocation is two of them.

    `crash_at`, `fail_write_at` and `fail_sync_at` name the operation that meets the fault, by its number from 0; a sync
    that fails takes its data for written, as Linux does. `capacity_bytes` is what all files together may take.
    """

    operations: int = 0
    crash_at: int | None = None
    fail_write_at: int | None = None
    fail_sync_at: int | None = None
    used_bytes: int = 0
    capacity_bytes: int | None = None

    def check_power(self) -> None:
        """Raise if the power is gone already: nothing changes any more."""
        if self.crash_at is not None and self.operations > self.crash_at:
            raise DiskCrashed(f"power lost at operation {self.crash_at}")

    def take_space(self, size: int) -> None:
        if size > 0 and self.capacity_bytes is not None and self.used_bytes + size > self.capacity_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.used_bytes += max(size, 0)

    def give_back(self, size: int) -> None:
        self.used_bytes -= size

    def meet(self, fail_at: int | None = None) -> None:
        """Count one operation, and raise the fault that waits for it."""
        number = self.operations
        self.operations += 1
        if number == self.crash_at:
            raise DiskCrashed(f"power lost at operation {number}")
        if number == fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class MemoryDisk:
    """Implements `storage.base.Disk`; its `faults` may be changed at any time."""

    def __init__(self, *, seed: int = 0) -> None:
        self.faults = DiskFaults()
        self._files: dict[str, _FileContent] = {}
        self._removed: dict[str, _FileContent] = {}  # durable names whose removal is not durable yet
        self._random = random.Random(seed)
        self._locked = False

    @property
    def path(self) -> str:
        return "memory"

    def lock(self) -> None:
        if self._locked:
            raise DirectoryLockedError(f"{self.path} is in use by another server: give this one its own directory")
        self._locked = True

    def names(self) -> list[str]:
        return sorted(self._files)

    def open_file(self, name: str) -> MemoryFile:
        self.faults.check_power()
        if name not in self._files:
            self._files[name] = _FileContent()
            self.faults.meet()
        return MemoryFile(self.faults, self._files[name])

    def unlink(self, name: str) -> None:
        self.faults.check_power()
        if name not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        self.faults.meet(self.faults.fail_write_at)
        content = self._files.pop(name)
        self.faults.give_back(len(content.cached))
        if content.name_is_durable:
            self._removed[name] = content

    def rename(self, name: str, new_name: str) -> None:
        self.faults.check_power()
        self.faults.meet(self.faults.fail_write_at)
        content = self._files.pop(name)
        if content.name_is_durable:
            self._removed[name] = content
        self._files[new_name] = attrs.evolve(content, name_is_durable=False)

    def sync_directory(self) -> None:
        self.faults.check_power()
        self.faults.meet(self.faults.fail_sync_at)
        self._removed.clear()
        for content in self._files.values():
            content.name_is_durable = True

    def random_bytes(self, length: int) -> bytes:
        return self._random.randbytes(length)

    def close(self) -> None:
        self._locked = False

    def after_kill(self) -> MemoryDisk:
        """The disk as the next server finds it when only the process ended.

        All that was written can be read, and what was not synced still waits for a sync. This object is used up.
        """
        return self._successor(self._files, self._removed)

    def after_power_loss(self, tear: Tear = keep_none, *, keep_names: bool | KeepName = False) -> MemoryDisk:
        """The disk as the next server finds it: `tear` decides on unsynced writes, `keep_names` on unsynced names.

        Where `keep_names` says no, a new file is lost and a removed one is back. This object stays as it is, so that
        several outcomes of one crash can be looked at.
        """
        keep = keep_names if callable(keep_names) else lambda _name: keep_names
        survivors = {}
        removed = {name: content for name, content in self._removed.items() if not keep(name)}
        for name, content in (removed | self._files).items():
            if content.name_is_durable or keep(name):
                platter = bytearray(content.durable)
                for write in content.unsynced:
                    for start, end in tear(write.start, write.start + len(write.data)):
                        _put(platter, start, write.data[start - write.start : end - write.start])
                survivors[name] = _FileContent(bytearray(platter), platter, name_is_durable=True)
        return self._successor(survivors, {})

    def content(self, name: str) -> bytes:
        """What a reader sees of a file."""
        return bytes(self._files[name].cached)

    def corrupt(self, name: str, offset: int, data: bytes) -> None:
        """Replace bytes of a file on the platter and in the cache, behind the back of whoever uses it."""
        for copy in (self._files[name].cached, self._files[name].durable):
            _put(copy, offset, data)

    def truncate(self, name: str, size: int) -> None:
        """Make a file shorter, behind the back of whoever uses it."""
        for copy in (self._files[name].cached, self._files[name].durable):
            del copy[size:]

    def remove(self, name: str) -> None:
        """Lose a file."""
        del self._files[name]

    def _successor(self, files: dict[str, _FileContent], removed: dict[str, _FileContent]) -> MemoryDisk:
        successor = MemoryDisk()
        successor._random.setstate(self._random.getstate())
        successor._files = files
        successor._removed = removed
        successor.faults.used_bytes = sum(len(content.cached) for content in files.values())
        return successor


class MemoryFile:
    """Implements `storage.base.DiskFile`."""

    def __init__(self, faults: DiskFaults, content: _FileContent) -> None:
        self._faults = faults
        self._content = content

    def size(self) -> int:
        return len(self._content.cached)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(memoryview(self._content.cached)[offset : offset + length])

    def write(self, offset: int, data: bytes) -> None:
        self._faults.check_power()
        self._faults.take_space(offset + len(data) - self.size())
        self._content.unsynced.append(_PendingWrite(offset, data))
        _put(self._content.cached, offset, data)
        self._faults.meet(self._faults.fail_write_at)

    def sync(self) -> None:
        self._faults.check_power()
        unsynced = self._content.unsynced
        try:
            self._faults.meet(self._faults.fail_sync_at)
        except OSError:
            unsynced.clear()
            raise
        for write in unsynced:
            _put(self._content.durable, write.start, write.data)
        unsynced.clear()

    def preallocate(self, size: int) -> None:
        if size > self.size():
            self.write(self.size(), bytes(size - self.size()))
            self.sync()

    def close(self) -> None:
        pass


def _put(target: bytearray, start: int, data: bytes) -> None:
    """Write into a bytearray as into a file: a gap before `start` reads as zeros."""
    if start > len(target):
        target.extend(bytes(start - len(target)))
    target[start : start + len(data)] = data
