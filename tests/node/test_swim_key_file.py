"""The secret of a group: written out, or in a file that only its owner and group may read."""

from __future__ import annotations

import base64
import errno
from pathlib import Path

import pytest

from distkv.errors import SettingsError
from distkv.swim.keyring import Keyring
from distkv.transport.key_file import read_keyring, write_keyring

A, B = bytes(range(32)), bytes(range(1, 33))


def line(key: bytes) -> str:
    return base64.b64encode(key).decode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "secret"
    found.write_text(f"{line(A)}\n\n{line(B)}\n")
    found.chmod(0o640)
    return found


def refused(secret: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read_keyring(secret, "cluster.secret")
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).startswith("cluster.secret")
    return str(caught.value)


def test_secret_that_is_written_out_is_one_key() -> None:
    assert read_keyring(line(A), "cluster.secret") == Keyring((A,))


def test_file_holds_keys_of_which_the_first_seals(file: Path) -> None:
    assert read_keyring(f"file:{file}", "cluster.secret") == Keyring((A, B))


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o642])
def test_file_that_others_may_read_or_write_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert f"all users may read or write {file}" in refused(f"file:{file}")


@pytest.mark.parametrize("text", ["", "\n", "x", f"{line(A)}\n" * 2, "é", f"{line(A)}{line(B)}"])
def test_file_that_holds_no_keys_is_refused_and_not_repeated(file: Path, text: str) -> None:
    file.write_text(text)
    assert line(A) not in refused(f"file:{file}")


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert f"{tmp_path}/no cannot be read: No such file" in refused(f"file:{tmp_path}/no")


def test_keys_that_are_written_are_read_and_the_mode_stays(file: Path) -> None:
    write_keyring(f"file:{file}", Keyring((B,)))
    assert read_keyring(f"file:{file}", "cluster.secret") == Keyring((B,))
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["secret"]


def test_keys_that_cannot_be_written_leave_the_file_and_no_part_of_another(file: Path) -> None:
    before = file.read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", _refuse)
        with pytest.raises(OSError, match="No space left"):
            write_keyring(f"file:{file}", Keyring((B,)))
    assert file.read_text() == before
    assert [path.name for path in file.parent.iterdir()] == ["secret"]


def _refuse(_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
