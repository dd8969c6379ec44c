"""Makes a data directory of a backup.

Knows: what a directory needs besides the archive, which is nothing.  Does not know how a node starts.

Invariant: a directory appears whole under its name, or not at all; the node that starts from it begins a new life.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import attrs

from distkv.errors import ExistsError, LogDamagedError, SettingsError
from distkv.model.event import NodeName
from distkv.storage.archive import ARCHIVE_NAME, Batch, open_archive
from distkv.storage.archive_connection import sync_directory
from distkv.wire.states import Meta, decode_meta, encode_meta


def restore(backup: Path, data_dir: Path) -> NodeName:
    """Make `data_dir` of a backup; returns the node's name.

    Raises:
        ExistsError: there is something already.
        SettingsError: the backup cannot be read, or the directory not written.
        StorageError: it is no backup, is damaged, or of a newer release.
    """
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise ExistsError(f"{data_dir} is not empty: name a new directory, or move this one aside")
    part = None
    try:
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{data_dir.name}-", dir=data_dir.parent))
        shutil.copyfile(backup, part / ARCHIVE_NAME)
        os.chmod(part / ARCHIVE_NAME, 0o600)
        meta = _mark(str(part / ARCHIVE_NAME), backup)
        if data_dir.exists():
            data_dir.rmdir()
        part.rename(data_dir)
        sync_directory(str(data_dir))
    except OSError as error:
        place = backup if str(error.filename) == str(backup) else data_dir  # not the directory that we made meanwhile
        raise SettingsError(f"{place}: {error.strerror or error}") from error
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    return meta.node


def _mark(path: str, backup: Path) -> Meta:
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
        archive.settle(Batch(archive.settled_lsn, meta=marked, state_rows=archive.state_rows, segment=0))
    finally:
        archive.close()
    return meta

