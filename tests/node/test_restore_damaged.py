"""A backup that is not as it was made: refused in one line, and nothing is changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from io import BytesIO
from pathlib import Path
from random import Random

import pytest
import trio

from distkv.daemon.restore import restore
from distkv.errors import LogDamagedError
from distkv.storage.seal import SEAL_BYTES, put_seal
from tests.node.nodes import run, solo_node
from tests.profiles import seeds

FLIPS = 40
"""With each seed."""


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a node with some values, deletions and history is backed up as."""
    directory, found = tmp_path_factory.mktemp("node"), list[bytes]()

    async def main() -> None:
        async with solo_node(archive=str(directory / "a.sqlite")) as node:
            async with node.client() as client:
                for number in range(60):
                    await client.set(f"a.n{number % 40}", "x" * number)
                await client.ask("delete_value", path=["a", "n7"])
            assert node.driver.settler is not None
            async with node.driver.settler.backup() as path:
                found.append(await trio.Path(path).read_bytes())

    run(main)
    return found[0]


def refused(data: bytes, place: Path, *, is_stream: bool = False) -> str:
    """The line with which a restore of it ends, which has changed nothing."""
    place.mkdir()
    file, home = place / "saved", place / "new" / "home"
    file.write_bytes(data)
    with pytest.raises(LogDamagedError) as found:
        restore(file, home, BytesIO(data) if is_stream else None)
    assert list(place.iterdir()) == [file]
    assert file.read_bytes() == data
    assert "\n" not in str(found.value)
    return str(found.value)


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def test_backup_as_it_was_made_is_restored(backup: bytes, tmp_path: Path) -> None:
    (tmp_path / "saved").write_bytes(backup)
    assert restore(tmp_path / "saved", tmp_path / "file") == "a"
    assert restore("standard input", tmp_path / "stream", BytesIO(backup)) == "a"
    archive = [(tmp_path / name / "state.sqlite").stat().st_size for name in ("file", "stream")]
    assert archive == [len(backup) - SEAL_BYTES] * 2


def test_backup_of_a_release_without_seals_is_restored_when_that_is_said(backup: bytes, tmp_path: Path) -> None:
    old = backup[:-SEAL_BYTES]
    assert "--unsealed" in refused(old, tmp_path / "place")
    (tmp_path / "saved").write_bytes(old)
    assert restore(tmp_path / "saved", tmp_path / "file", is_sealed=False) == "a"
    assert restore("standard input", tmp_path / "stream", BytesIO(old), is_sealed=False) == "a"


@pytest.mark.parametrize("seed", seeds(4))
def test_flipped_bit_anywhere_is_refused(backup: bytes, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    for number in range(FLIPS):
        at = random.randrange(len(backup))
        refused(flipped(backup, at, random.randrange(8)), tmp_path / f"{number}", is_stream=number % 2 == 0)


@pytest.mark.parametrize("seed", seeds(4))
def test_part_that_is_gone_put_in_or_overwritten_is_refused(backup: bytes, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    for number in range(FLIPS):
        at, size = random.randrange(len(backup)), random.randint(1, 5000)
        before, after, other = backup[:at], backup[at + size :], random.randbytes(size)
        ways = before, before + after, before + other + backup[at:], before + other + after, backup + other
        data = ways[number % len(ways)]
        assert data != backup
        refused(data, tmp_path / f"{number}", is_stream=number % 2 == 0)


@pytest.mark.parametrize("size", [0, 1, SEAL_BYTES - 1, SEAL_BYTES, SEAL_BYTES + 1])
def test_piece_of_the_end_or_the_beginning_is_refused(backup: bytes, tmp_path: Path, size: int) -> None:
    for name, data in (("end", backup[len(backup) - size :]), ("begin", backup[:size]), ("cut", backup[: -size or 1])):
        assert "damaged" in refused(data, tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE state SET checked = checked + 1 WHERE path = (SELECT max(path) FROM state)",
        "UPDATE history SET checked = checked + 1 WHERE lsn = 9",
        "UPDATE ledger SET checked = checked + 1",
        "UPDATE meta SET checked = checked + 1",
        "UPDATE progress SET checked = checked + 1",
        "DELETE FROM state WHERE path = (SELECT max(path) FROM state)",
        "DELETE FROM history WHERE lsn = 9",
        "DELETE FROM ledger",
        "DELETE FROM meta",
        "DROP TABLE history",
    ],
)
def test_rows_that_do_not_check_are_refused_whatever_the_seal_says(backup: bytes, tmp_path: Path, change: str) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(backup[:-SEAL_BYTES])
    with closing(sqlite3.connect(archive)) as connection:
        connection.execute(change)
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
    put_seal(str(archive))
    refused(archive.read_bytes(), tmp_path / "place")
