"""The real disk, in a temporary directory."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from distkv.errors import DirectoryLockedError
from distkv.storage.disk import DirectoryDisk

ROOT = Path(__file__).parents[3]

HOLD_THE_LOCK = """
import sys
from distkv.storage.disk import DirectoryDisk
DirectoryDisk(sys.argv[1]).lock()
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DirectoryDisk]:
    disk = DirectoryDisk(str(tmp_path / "a" / "b"))
    yield disk
    disk.close()


def test_directory_is_made_for_its_owner_only(disk: DirectoryDisk) -> None:
    assert os.stat(disk.path).st_mode & 0o777 == 0o700


def test_file_written_is_read_back(disk: DirectoryDisk) -> None:
    file = disk.open_file("f")
    file.write(3, b"abc")
    file.sync()
    disk.sync_directory()
    assert (file.size(), file.read(0, 100), file.read(4, 1)) == (6, b"\0\0\0abc", b"b")
    file.close()
    assert disk.names() == ["f"]


def test_preallocate_takes_the_blocks_and_keeps_the_content(disk: DirectoryDisk) -> None:
    file = disk.open_file("f")
    file.write(0, b"abc")
    file.preallocate(3 << 20)
    assert file.read(0, 3 << 20) == b"abc".ljust(3 << 20, b"\0")
    file.close()
    assert os.stat(os.path.join(disk.path, "f")).st_blocks * 512 >= 3 << 20


def test_preallocate_leaves_a_longer_file_alone(disk: DirectoryDisk) -> None:
    file = disk.open_file("f")
    file.write(0, b"abcdef")
    file.preallocate(3)
    assert file.read(0, 10) == b"abcdef"
    file.close()


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """No file of this process can be written beyond `size`: a write across it is cut short, and the next one fails."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
        signal.signal(signal.SIGXFSZ, handler)


def test_preallocate_that_fails_raises(disk: DirectoryDisk) -> None:
    file = disk.open_file("f")
    with files_end_at(1 << 20), pytest.raises(OSError, match="File too large") as caught:
        file.preallocate(2 << 20)
    file.close()
    assert caught.value.errno == errno.EFBIG


def test_write_that_is_cut_short_is_not_taken_for_done(disk: DirectoryDisk) -> None:
    file = disk.open_file("f")
    with files_end_at(1 << 20), pytest.raises(OSError, match="File too large"):
        file.write((1 << 20) - 10, bytes(20))
    assert file.size() == 1 << 20  # the system did take the first ten bytes
    file.close()


def test_second_lock_in_the_same_process_is_refused(disk: DirectoryDisk) -> None:
    disk.lock()
    second = DirectoryDisk(disk.path)
    with pytest.raises(DirectoryLockedError, match=rf"in use by another server \(pid {os.getpid()}\)"):
        second.lock()
    second.close()


def test_lock_names_its_holder_also_where_another_one_was_before(disk: DirectoryDisk) -> None:
    Path(disk.path, "lock").write_text("9" * 15)
    disk.lock()
    second = DirectoryDisk(disk.path)
    with pytest.raises(DirectoryLockedError, match=rf"\(pid {os.getpid()}\)"):
        second.lock()
    second.close()


def test_lock_of_another_process_names_its_pid_and_ends_with_it(disk: DirectoryDisk) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, disk.path], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"locked\n"
            with pytest.raises(DirectoryLockedError, match=rf"\(pid {holder.pid}\)"):
                disk.lock()
        finally:
            holder.kill()
    disk.lock()
    assert "lock" in disk.names()


def test_close_twice_does_nothing(disk: DirectoryDisk) -> None:
    disk.lock()
    disk.close()
    disk.close()
    other = DirectoryDisk(disk.path)
    other.lock()
    other.close()
    assert os.path.exists(os.path.join(disk.path, "lock"))
