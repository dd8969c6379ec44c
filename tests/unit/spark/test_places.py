"""Where results go: a file that is replaced as a whole, or stays.

Knows: what may be in the way.  Does not know Spark.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.errors import NoSpaceError, RequestError, StorageFailedError
from distkv.spark.places import replace_file, writable_file


def test_file_takes_the_place_of_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to("old")
    replace_file(writable_file(str(tmp_path / "link")), [b"n", b"ew"])
    assert (tmp_path / "old").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "old"]


@pytest.mark.parametrize(("name", "why"), [("nowhere/x", "there is no folder"), ("folder", "is no file")])
def test_file_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(RequestError, match=why):
        writable_file(str(tmp_path / name))


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(OSError(errno.ENOSPC, "full"), NoSpaceError), (OSError(errno.EIO, "broken"), StorageFailedError)],
)
def test_file_stays_as_it_was_when_the_disk_fails(tmp_path: Path, failure: OSError, expected: type[Exception]) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise failure

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(expected, match="is as before"):
        replace_file(str(tmp_path / "file"), chunks())
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
