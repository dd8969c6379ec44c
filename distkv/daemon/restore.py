"""Makes a data directory of a backup.

Knows: what a directory needs besides the archive, which is nothing.  Does not know how a node starts.

Invariant: a directory appears whole under its name, or not at all; the node that starts from it begins a new life.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from distkv.errors import ExistsError, LogDamagedError, SettingsError
from distkv.model.event import NodeName
from distkv.storage.archive import ARCHIVE_NAME, Settlement, open_archive
from distkv.storage.archive_connection import sync_directory
from distkv.wire.states import Meta, decode_meta, encode_meta


def restore(backup: str | Path, data_dir: Path, stream: BinaryIO | None = None) -> NodeName:
    """Make `data_dir` of a backup; returns the node's name.

    Args:
        backup: the file, or what to call the stream in messages.
        data_dir: a directory that is empty, or not there.
        stream: where the backup comes from when it is no file.

    Raises:
        ExistsError: there is something already.
        SettingsError: the backup cannot be read, or the directory not written.
        StorageError: it is no backup, is damaged or not whole, or of a newer release.
    """
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise ExistsError(f"{data_dir} is not empty: name a new directory, or move this one aside")
    part = None
    try:
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{data_dir.name}-", dir=data_dir.parent))
        _copy(backup, part / ARCHIVE_NAME, stream)
        _check_whole(part / ARCHIVE_NAME, backup)
        os.chmod(part / ARCHIVE_NAME, 0o600)
        meta = _mark(str(part / ARCHIVE_NAME), backup)
        if data_dir.exists():
            data_dir.rmdir()
        part.rename(data_dir)
        sync_directory(str(data_dir))
    except OSError as error:
        # Not the directory that we made meanwhile.
        place = str(backup) if str(error.filename) == str(backup) else data_dir
        raise SettingsError(f"{place}: {error.strerror or error}") from error
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    return meta.node


def _copy(backup: str | Path, place: Path, stream: BinaryIO | None) -> None:
    if stream is None:
        shutil.copyfile(backup, place)
    else:
        with place.open("wb") as out:
            shutil.copyfileobj(stream, out)


def _check_whole(place: Path, backup: str | Path) -> None:
    """SQLite reads what is left of a file that was cut, so what its header says is compared with what came.

    Raises:
        LogDamagedError: it has another size.
    """
    with place.open("rb") as file:
        head = file.read(_HEADER.size)
    if len(head) == _HEADER.size and head.startswith(b"SQLite format 3\0"):
        _, page_bytes, pages = _HEADER.unpack(head)
        wanted, size = (page_bytes if page_bytes > 1 else 1 << 16) * pages, place.stat().st_size
        if size != wanted:
            raise LogDamagedError(f"{backup} is not whole: {size} of {wanted} bytes; take it from where it was made")


_HEADER: Final = struct.Struct(">16sH10xI")
"""The magic, the size of a page, and how many there are: https://www.sqlite.org/fileformat.html"""


def _mark(path: str, backup: str | Path) -> Meta:
    try:
        archive = open_archive(path)
    except LogDamagedError as error:
        raise LogDamagedError(f"{backup} is damaged or no backup: name what 'distkv client backup' wrote") from error
    try:
        rows = archive.meta()
        if not rows:
            raise LogDamagedError(f"{backup} holds no node: name a file that 'distkv client backup' wrote")
        meta = decode_meta(rows)
        marked = encode_meta(attrs.evolve(meta, restored=True))
        archive.settle(Settlement(archive.settled_lsn, meta=marked, state_rows=archive.state_rows, segment=0))
    finally:
        archive.close()
    return meta

