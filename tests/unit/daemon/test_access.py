"""A data directory that cannot be used: which path the one line names, and what it says to do.

Knows: permissions, files where directories should be, a file system that is mounted read-only.  Does not know what a
server does with the directory.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from distkv.config import Config
from distkv.daemon.directory import open_directory
from distkv.errors import SettingsError, StorageFailedError
from distkv.model.event import NodeName
from distkv.storage.archive import ARCHIVE_NAME
from distkv.storage.disk import LOCK_NAME
from distkv.storage.segment import segment_name

NOBODY = 65534


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of whoever runs the tests, in one that all may enter."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        home = Path(name) / "home"
        home.mkdir()
        yield home


@contextmanager
def without_rights() -> Iterator[None]:
    """Root passes over all permissions, so it is somebody else meanwhile."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def config(path: Path) -> Config:
    return Config(node=NodeName("a"), data_dir=path, transport="solo")


def used(path: Path) -> Path:
    """A data directory that a server has left, of nobody's if we are root."""
    with open_directory(config(path)):
        pass
    if os.geteuid() == 0:
        for place in (path, *path.iterdir()):
            os.chown(place, NOBODY, -1)
    return path


def refusal(path: Path) -> str:
    with without_rights(), pytest.raises((SettingsError, StorageFailedError)) as found, open_directory(config(path)):
        pass
    assert "\n" not in str(found.value)
    return str(found.value)


def test_directory_left_by_a_server_is_opened_again(home: Path) -> None:
    path = used(home / "data")
    with without_rights(), open_directory(config(path)) as found:
        assert found.path == str(path)


@pytest.mark.parametrize("mode", [0o500, 0o300, 0o600, 0o000], ids=oct)
def test_directory_that_may_not_be_used_is_named_with_its_owner(home: Path, mode: int) -> None:
    path = used(home / "data")
    path.chmod(mode)
    said = refusal(path)
    path.chmod(0o700)
    assert said.startswith(f"{path}")
    assert "Permission denied" in said
    assert "chown" in said


@pytest.mark.parametrize("name", [LOCK_NAME, ARCHIVE_NAME, segment_name(1)])
@pytest.mark.parametrize("mode", [0o000, 0o400], ids=oct)
def test_file_that_may_not_be_read_or_written_is_named(home: Path, name: str, mode: int) -> None:
    path = used(home / "data")
    (path / name).chmod(mode)
    said = refusal(path)
    assert said.startswith(f"{path / name} cannot be used: Permission denied: {path / name} belongs to ")
    assert "--data-dir" in said


@pytest.mark.parametrize("name", [LOCK_NAME, ARCHIVE_NAME, segment_name(1)])
def test_directory_where_a_file_should_be_is_named(home: Path, name: str) -> None:
    path = used(home / "data")
    (path / name).unlink()
    (path / name).mkdir()
    assert refusal(path).startswith(f"{path / name} cannot be used: Is a directory: {path / name} is a directory: move")


def test_directory_that_may_not_be_made_names_the_parent_that_forbids_it(home: Path) -> None:
    home.chmod(0o500)
    said = refusal(home / "deep" / "data")
    home.chmod(0o700)
    assert said.startswith(f"cannot make the data directory {home / 'deep' / 'data'}: Permission denied: {home} ")


@pytest.mark.parametrize("rest", ["", "data"])
def test_file_where_a_directory_should_be_is_named(home: Path, rest: str) -> None:
    home.chmod(0o755)
    (home / "file").write_text("mine")
    said = refusal(home / "file" / rest)
    assert f"{home / 'file'} is no directory: move it aside, or name another directory with --data-dir" in said
    assert (home / "file").read_text() == "mine"


READ_ONLY = """
import sys
from pathlib import Path
from distkv.config import Config
from distkv.daemon.directory import open_directory
from distkv.errors import DistkvError
try:
    with open_directory(Config(node="a", data_dir=Path(sys.argv[1]), transport="solo")):
        pass
except DistkvError as error:
    print(error)
"""


@pytest.mark.parametrize("rest", ["data", "new"])
def test_read_only_file_system_is_said_with_what_to_do(home: Path, rest: str) -> None:
    used(home / "data")
    mount = f"mount --bind '{home}' '{home}' && mount -o remount,bind,ro '{home}' && exec \"$@\""
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", READ_ONLY, str(home / rest)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"nothing can be mounted here: {ran.stderr.strip()}")
    assert str(home / rest) in ran.stdout
    assert "mounted read-only: mount it for writing" in ran.stdout
    assert ran.stdout.count("\n") == 1
