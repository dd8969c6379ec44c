"""Whether a data directory, and what a server has in it, can be used by whoever starts this one.

Knows: the system's errors, and what people do about each.  Does not know what the files hold.

Invariant: nothing in the directory is changed, and every refusal is one line that names the path which stands in the
way and what to do about it.
"""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from distkv.errors import SettingsError, StorageFailedError
from distkv.storage.archive import ARCHIVE_NAME
from distkv.storage.segment import segment_name, segment_numbers

_OTHER: Final = "name another directory with --data-dir, or data.dir in the configuration"
_IN_THE_WAY: Final = (errno.ENOTDIR, errno.EEXIST, errno.EISDIR)


def make_directory(path: Path) -> None:
    """Make the data directory and its missing parents, for its owner only, unless it is there.

    Raises:
        SettingsError: it cannot be made, or something else is there.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        blocked = _blocked(path)
        says = f"cannot make the data directory {path}: {error.strerror}"
        raise SettingsError(f"{says}: {_advice(error, blocked)}") from error


def check_access(path: Path) -> None:
    """Whether all that a server has here can be read and written, before anything is opened.

    Raises:
        StorageFailedError: it cannot.
    """
    with explained(path):
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
            number = errno.EROFS if is_read_only else errno.EACCES
            raise OSError(number, os.strerror(number), str(path))
        names = os.listdir(path)
        segments = list(map(segment_name, segment_numbers(names)))
        for name in (ARCHIVE_NAME, f"{ARCHIVE_NAME}-wal", f"{ARCHIVE_NAME}-shm", *segments):
            if name in names:  # nobody has it open yet: closing it would let go of SQLite's locks
                os.close(os.open(path / name, os.O_RDWR))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise StorageFailedError for what the system refuses in the data directory `path`."""
    try:
        yield
    except OSError as error:
        place = path / os.fsdecode(error.filename or "")  # a name in the directory, or the whole path
        says = f"{place} cannot be used: {error.strerror}"
        raise StorageFailedError(f"{says}: {_advice(error, place)}") from error


def _blocked(path: Path) -> Path:
    """What is there of a path, as far as it can be followed."""
    for place in (path, *path.parents):
        if os.path.lexists(place):
            return place
    return path


def _advice(error: OSError, place: Path) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{_owners(place)}: start the server as the owner, give it to this user (chown), or {_OTHER}"
    if error.errno == errno.EROFS:
        return f"its file system is mounted read-only: mount it for writing (the kernel's log may say why), or {_OTHER}"
    if error.errno in _IN_THE_WAY:
        what = "a directory" if error.errno == errno.EISDIR else "no directory"
        return f"{place} is {what}: move it aside, or {_OTHER}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"make space there, or {_OTHER}"
    return f"see to the disk, or {_OTHER}"


def _owners(place: Path) -> str:
    """Whose it is, and who we are."""
    while True:
        try:
            owner = place.stat().st_uid
            break
        except OSError:  # it cannot be looked at, so what is in the way is above it
            place = place.parent
    return f"{place} belongs to {_name(owner)}, and this is {_name(os.geteuid())}"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
