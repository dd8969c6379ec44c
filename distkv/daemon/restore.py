"""Makes a data directory of a backup.

Knows: what a directory needs besides the archive, which is nothing.  Does not know how a node starts.

Invariant: a directory appears whole under its name, or not at all; the node that starts from it begins a new life.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

import attrs

from distkv.errors import DamagedError, DecodeError, ExistsError, LogDamagedError, SettingsError
from distkv.model.event import NodeName
from distkv.storage.archive import ARCHIVE_NAME, Settlement, open_archive
from distkv.storage.archive_connection import sync_directory
from distkv.storage.archive_copy import check_copy
from distkv.storage.seal import copy_unsealed
from distkv.wire.records import decode_record
from distkv.wire.states import Meta, decode_book, decode_entry, decode_meta, encode_meta


def restore(
    backup: str | Path, data_dir: Path, stream: BinaryIO | None = None, *, is_sealed: bool = True
) -> NodeName:
    """Make `data_dir` of a backup; returns the node's name.

    Args:
        backup: the file, or what to call the stream in messages.
        data_dir: a directory that is empty, or not there.
        stream: where the backup comes from when it is no file.
        is_sealed: whether it has a checksum at its end; False: it is of a release that put none there.

    Raises:
        ExistsError: there is something already.
        SettingsError: the backup cannot be read, or the directory not written.
        StorageError: it is no backup, is damaged or not whole, or of a newer release.
    """
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise ExistsError(f"{data_dir} is not empty: name a new directory, or move this one aside")
    part, made = None, [parent for parent in data_dir.parents if not parent.exists()]
    try:
        if stream is None and is_sealed:
            with open(backup, "rb") as file:
                copy_unsealed(file, None, backup)
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{data_dir.name}-", dir=data_dir.parent))
        archive = part / ARCHIVE_NAME
        _copy(backup, archive, stream, is_sealed=is_sealed)
        os.chmod(archive, 0o600)
        _check(str(archive), backup)
        meta = _mark(str(archive), backup)
        if data_dir.exists():
            data_dir.rmdir()
        part.rename(data_dir)
        sync_directory(str(data_dir))
        made = []
    except OSError as error:
        # Not the directory that we made meanwhile.
        place = str(backup) if str(error.filename) == str(backup) else data_dir
        raise SettingsError(f"{place}: {error.strerror or error}") from error
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            for parent in made:
                parent.rmdir()
    return meta.node


def _copy(backup: str | Path, place: Path, stream: BinaryIO | None, *, is_sealed: bool) -> None:
    with nullcontext(stream) if stream is not None else open(backup, "rb") as source, place.open("wb") as out:
        if is_sealed:
            copy_unsealed(source, out, backup)
        else:
            shutil.copyfileobj(source, out)


def _check(path: str, backup: str | Path) -> None:
    """A seal says that these bytes were sealed; whether they are an archive of whole rows is looked at as well."""
    try:
        archive = open_archive(path)
        try:
            check_copy(path)
            for row in archive.load():
                decode_entry(row.entry)
            for book in archive.ledger():
                decode_book(book.life, book.book)
            for past in archive.past.rows():
                decode_record(past.record)
        finally:
            archive.close()
    except (DamagedError, DecodeError, LogDamagedError) as error:
        raise LogDamagedError(f"{backup} is damaged or no backup ({error}): take an older one") from error


def _mark(path: str, backup: str | Path) -> Meta:
    archive = open_archive(path)
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

