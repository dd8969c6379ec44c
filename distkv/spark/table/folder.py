"""What an event table asks of a file system, and what the system's errors mean to its users.

Knows: the system calls.  Does not know what the files are for (`spark.table.store`).

Invariant: after `sync_file` and `sync_folder` the kernel has said that the data, or the names, are on the device; no
OSError leaves `translated`.  Tests put an object of their own in the place of `Folders`, which ends after some steps.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from zlib import crc32

from distkv.errors import BusyError, NoSpaceError, StorageFailedError

# The system has run out of something that may come back; as storage.base has it, which is a node's inside.
SCARCE_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
READ_BYTES: Final = 1 << 20
"""So much of a file is read at once."""


class Folders:
    """The real file system. Every method takes absolute names and may raise OSError."""

    def names(self, folder: str) -> list[str]:
        """What is in a folder, in no order; nothing when there is no such folder."""
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []

    def size(self, file: str) -> int | None:
        """Length in bytes; None when there is no such file."""
        try:
            return os.stat(file).st_size
        except FileNotFoundError:
            return None

    def read(self, file: str) -> bytes | None:
        """All of a file; None when there is no such file."""
        try:
            with open(file, "rb") as opened:
                return opened.read()
        except FileNotFoundError:
            return None

    def make_folder(self, folder: str) -> None:
        """Make a folder; its parent must be there."""
        os.mkdir(folder)

    def write(self, file: str, data: bytes) -> None:
        """Make a file of these bytes; durable after `sync_file` and `sync_folder`."""
        with open(file, "wb") as opened:
            opened.write(data)

    def rename(self, file: str, new: str) -> None:
        """Give a file another name, and take that from the file that had it; durable after `sync_folder`."""
        os.rename(file, new)

    def remove(self, file: str) -> None:
        """Remove a file; durable after `sync_folder`."""
        os.unlink(file)

    def sync_file(self, file: str) -> None:
        """Make what was written durable."""
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_folder(self, folder: str) -> None:
        """Make durable which names are in a folder."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def crc32_of(file: str) -> int:
    """The CRC-32 of a file's bytes; may raise OSError."""
    found = 0
    with open(file, "rb", buffering=0) as opened:
        while some := opened.read(READ_BYTES):
            found = crc32(some, found)
    return found


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise our errors for the system's: NoSpaceError, StorageFailedError."""
    try:
        yield
    except OSError as error:
        where = error.filename or place
        reason = error.strerror or str(error)
        if error.errno in SCARCE_ERRNOS:
            raise NoSpaceError(f"{where}: {reason}: make space, then start this again; the table is whole") from error
        raise StorageFailedError(
            f"{where}: {reason}: see to the disk and to the rights of this folder, then start this again"
        ) from error


@contextmanager
def locked(file: str, place: str) -> Iterator[None]:
    """Hold a lock while this lasts; the system ends it with the process, however that ends.

    Raises:
        BusyError: another process has it, or another part of this one.
        NoSpaceError, StorageFailedError: there can be no such file.
    """
    with translated(place):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with translated(place):
            _lock(descriptor, place)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, place: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BusyError(f"another job{_holder(descriptor)} uses {place}: wait until it has ended, or end it") from error
    _write_holder(descriptor)


def _write_holder(descriptor: int) -> None:
    """Leave the pid for the next one's message; a full disk must not stop a reader for want of it."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except OSError as error:
        if error.errno not in SCARCE_ERRNOS:
            raise


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 20, 0).strip()
    return f" (pid {text.decode()})" if text.isdigit() else ""
