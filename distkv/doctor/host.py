"""Looks at the data directory and the limits of this host.

Knows: where Linux tells who holds a lock and what a process may open.  Does not judge what it finds.

Invariant: nothing is written, made or locked: a server that starts at this moment is not disturbed.
"""

from __future__ import annotations

import os
import pwd
import resource
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs

from distkv.doctor.facts import Descriptors, DirectoryFacts
from distkv.errors import LogDamagedError
from distkv.storage.archive import ARCHIVE_NAME
from distkv.storage.archive_schema import read_format
from distkv.storage.disk import LOCK_NAME


def look_at_directory(path: Path) -> DirectoryFacts:
    """The data directory, as far as this user may see it."""
    found = DirectoryFacts(str(path))
    try:
        status = path.stat()
    except FileNotFoundError:
        return found
    except OSError as error:
        return attrs.evolve(found, exists=True, failure=error.strerror or str(error))
    found = attrs.evolve(
        found,
        exists=True,
        owner=_user(status.st_uid),
        is_ours=os.geteuid() in (0, status.st_uid),
        mode=stat.S_IMODE(status.st_mode),
        free_bytes=_free_bytes(path),
    )
    try:
        if not stat.S_ISDIR(status.st_mode):
            return attrs.evolve(found, failure="it is no directory")
        return attrs.evolve(
            _with_archive(found, path / ARCHIVE_NAME),
            strangers=tuple(sorted({_user(uid) for uid in _owners(path)} - {found.owner})),
            holder=lock_holder(path / LOCK_NAME),
        )
    except OSError as error:
        return attrs.evolve(found, failure=error.strerror or str(error))


def look_at_descriptors(holder: int | None) -> Descriptors:
    """What the process may open that uses the directory; when there is none, what one may that starts from here."""
    if holder:
        try:
            lines = Path(f"/proc/{holder}/limits").read_text(encoding="ascii").splitlines()
            words = next(line.split() for line in lines if line.startswith("Max open files"))
            return Descriptors(holder, int(words[3]), _open_count(holder))
        except (OSError, StopIteration, ValueError):  # it has ended, or is hidden from us
            pass
    return Descriptors(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def lock_holder(path: Path, locks: Path = Path("/proc/locks")) -> int | None:
    """The process that has locked this file; 0: none has; None: it cannot be known.

    The kernel's list is read, because to try the lock is to take it, for a moment in which a server may start. A line
    is `1: FLOCK ADVISORY WRITE 4711 fe:00:1442146 0 EOF`. The device is not compared: some file systems show another
    one there than in `stat`. Instead the process must be the one that wrote its number into the file.
    """
    try:
        inode = path.stat().st_ino
        writer = path.read_text(encoding="ascii").strip()
        lines = locks.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return 0 if locks.exists() else None
    except (OSError, ValueError):
        return None
    for words in map(str.split, lines):
        if len(words) > 5 and words[1] == "FLOCK" and words[4] == writer and words[5].endswith(f":{inode}"):
            return int(writer)
    return 0


def _with_archive(found: DirectoryFacts, path: Path) -> DirectoryFacts:
    try:
        size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
        return attrs.evolve(found, archive_bytes=size, format=read_format(str(path)))
    except FileNotFoundError:
        return found
    except LogDamagedError as error:
        return attrs.evolve(found, damage=str(error))


def _owners(path: Path) -> Iterator[int]:
    for file in path.iterdir():
        with suppress(FileNotFoundError):  # the server removes what is settled
            yield file.stat().st_uid


def _free_bytes(path: Path) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _open_count(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # another user's
        return None


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
