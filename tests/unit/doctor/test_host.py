"""What `distkv doctor` sees of a host: real directories, and the kernel's list of locks.

Knows: files.  Does not judge.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

import pytest

from distkv.doctor.host import lock_holder, look_at_descriptors, look_at_directory
from distkv.errors import LogDamagedError
from distkv.storage.archive import ARCHIVE_NAME, open_archive
from distkv.storage.archive_schema import STEPS, read_format


def test_directory_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    found = look_at_directory(tmp_path / "none")
    assert (found.exists, found.failure) == (False, "")


def test_directory_shows_mode_owner_and_space(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    found = look_at_directory(tmp_path)
    assert (found.mode, found.is_ours, found.holder) == (0o750, True, 0)
    assert found.free_bytes is not None


def test_file_in_its_place_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    assert look_at_directory(tmp_path / "data").failure == "it is no directory"


def test_archive_shows_its_format_and_size(tmp_path: Path) -> None:
    path = tmp_path / ARCHIVE_NAME
    open_archive(str(path)).close()
    found = look_at_directory(tmp_path)
    assert (found.format, found.archive_bytes) == (len(STEPS), path.stat().st_size)


def test_archive_that_is_still_in_the_wal_shows_no_format(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path / ARCHIVE_NAME))
    try:
        assert read_format(str(tmp_path / ARCHIVE_NAME)) is None
    finally:
        archive.close()


def test_file_that_is_no_archive_is_damage(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE_NAME).write_bytes(b"x" * 200)
    assert "is not an archive of distkv" in look_at_directory(tmp_path).damage


def test_other_sqlite_file_is_no_archive(tmp_path: Path) -> None:
    path = str(tmp_path / "other")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(LogDamagedError):
        read_format(path)


def test_lock_is_found_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text(f"{os.getpid()}\n")
    assert lock_holder(path) == 0
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holder(path) == os.getpid()


def test_lock_of_another_file_is_none(tmp_path: Path) -> None:
    path, other = tmp_path / "lock", tmp_path / "other"
    path.write_text(f"{os.getpid()}\n")
    with other.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holder(path) == 0


def test_lock_cannot_be_known_without_the_kernels_list(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")
    assert lock_holder(tmp_path / "lock", tmp_path / "none") is None


def test_descriptors_of_a_process_are_its_own() -> None:
    found = look_at_descriptors(os.getpid())
    assert (found.pid, found.used is not None) == (os.getpid(), True)


def test_descriptors_of_no_process_are_those_of_the_shell() -> None:
    assert look_at_descriptors(0).pid == 0
