"""Rows of data in the archive: replaced, removed, damaged one by one, in copies.

Knows: rows, checksums and sums.  Does not know what a row means.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from distkv.errors import BusyError, LogDamagedError
from distkv.storage.archive import Archive, Settlement, open_archive
from distkv.storage.archive_copy import check_copy, write_copy
from distkv.storage.archive_rows import DamagedRow, DataRow, LedgerRow, StateRow, data_damage
from distkv.storage.archive_scrub import parts

A, B, C = DataRow("s", "a", b"1"), DataRow("s", "b", b"2"), DataRow("t", "a", b"3")
HELD: dict[tuple[str, str], bytes | None] = {("s", "a"): b"1", ("s", "b"): b"2", ("t", "a"): b"3"}


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "state.sqlite")


@pytest.fixture
def archive(file: str) -> Iterator[Archive]:
    with closing(open_archive(file)) as found:
        states, ledger = [StateRow(b"p", b"e")], [LedgerRow("n", 1, b"b")]
        found.settle(Settlement(1, states, ledger=ledger, meta={"k": b"v"}, data=HELD))
        yield found


def behind_its_back(file: str, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


def seen(file: str) -> list[DamagedRow]:
    return [damage for part in parts(file) for damage in part.damaged]


def test_rows_are_there_when_the_archive_is_opened_again(archive: Archive, file: str) -> None:
    archive.close()
    with closing(open_archive(file)) as again:
        assert ([*again.data()], again.lost_data, again.is_data_damaged) == ([A, B, C], [], False)
        assert again.meta() == {"k": b"v"}
        assert seen(file) == []


def test_newest_value_replaces_those_before_and_removed_rows_are_gone(archive: Archive, file: str) -> None:
    archive.settle(Settlement(2, data={("s", "a"): b"new", ("t", "a"): None, ("u", "x"): None}))
    assert [*archive.data()] == [DataRow("s", "a", b"new"), B]
    assert (archive.lost_data, seen(file)) == ([], [])


def test_settlement_that_forgets_the_store_leaves_rows(archive: Archive, file: str) -> None:
    archive.settle(Settlement(2, forget=True))
    assert ([*archive.data()], archive.lost_data, seen(file)) == ([A, B, C], [], [])


def test_settlement_that_forgets_rows_leaves_those_that_it_brings(archive: Archive, file: str) -> None:
    archive.settle(Settlement(2, forget_data=True, data={("t", "b"): b"4"}))
    assert ([*archive.data()], archive.lost_data, seen(file)) == ([DataRow("t", "b", b"4")], [], [])


@pytest.mark.parametrize(
    ("statement", "left", "lost"),
    [
        ("UPDATE data SET value = x'32' WHERE machine = 's' AND key = 'a'", [B, C], [("s", "a")]),
        ("UPDATE data SET checked = 7 WHERE machine = 's' AND key = 'a'", [B, C], [("s", "a")]),
        ("UPDATE data SET value = 7 WHERE machine = 's' AND key = 'a'", [B, C], [("s", "a")]),
        ("UPDATE data SET checked = 'x' WHERE machine = 's' AND key = 'a'", [B, C], [("s", "a")]),
        ("UPDATE data SET key = x'00' WHERE machine = 's' AND key = 'a'", [B, C], [("s", None)]),
        ("UPDATE data SET machine = x'00' WHERE machine = 't'", [A, B], [("t", None)]),
        ("UPDATE data SET key = 'x' WHERE machine = 's' AND key = 'a'", [B, C], [("s", None)]),
        ("UPDATE data SET machine = 'x' WHERE machine = 't'", [A, B], [("t", None)]),
        ("DELETE FROM data WHERE machine = 't'", [A, B], [("t", None)]),
        ("DELETE FROM data", [], [("s", None), ("t", None)]),
        ("UPDATE data SET key_checked = 7 WHERE machine = 's' AND key = 'a'", [A, B, C], []),
    ],
)
def test_damage_takes_its_row_and_is_told(
    archive: Archive, file: str, statement: str, left: list[DataRow], lost: list[tuple[str, str | None]]
) -> None:
    archive.close()
    behind_its_back(file, statement)
    with closing(open_archive(file)) as again:
        assert ([*again.data()], again.lost_data, again.is_data_damaged) == (left, lost, True)
        assert {data_damage(*row) for row in lost} <= again.damage.all().keys()
        assert {data_damage(*row) for row in lost} <= set(seen(file))
        assert seen(file) != []
        assert [*again.load()] == [StateRow(b"p", b"e")]
        held = {(row.machine, row.key): row.value for row in left}
        again.settle(Settlement(2, forget_data=True, data=held))
        assert ([*again.data()], again.lost_data, seen(file)) == (left, [], [])


def test_old_row_that_came_back_is_noticed(archive: Archive, file: str) -> None:
    """A page that the disk did not write: each row on it checks."""
    with closing(sqlite3.connect(file)) as connection:
        old = connection.execute("SELECT * FROM data WHERE machine = 's' AND key = 'a'").fetchone()
    archive.settle(Settlement(2, data={("s", "a"): b"new"}))
    archive.close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("REPLACE INTO data VALUES (?, ?, ?, ?, ?)", old)
        connection.commit()
    with closing(open_archive(file)) as again:
        assert ([*again.data()], again.lost_data) == ([A, B, C], [("s", None)])
        assert seen(file) == [data_damage("s", None)]


def test_page_that_cannot_be_read_takes_its_rows_and_all_is_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "state.sqlite"
    held: dict[tuple[str, str], bytes | None] = {}
    for number in range(600):
        held["abc"[number // 200], f"{number:04d}"] = bytes(200)
    with closing(open_archive(str(file))) as archive:
        archive.settle(Settlement(1, [StateRow(b"p", b"e")], meta={"k": b"v"}, data=held))
    with closing(sqlite3.connect(file)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(file.read_bytes())
    page = content.index(b"a0150") // size
    content[page * size : page * size + 100] = bytes(100)
    file.write_bytes(content)
    with closing(open_archive(str(file))) as archive:
        left = [*archive.data()]
        assert 500 < len(left) < 600
        assert {(row.machine, row.key): row.value for row in left}.items() <= held.items()
        assert archive.lost_data == [("a", None)]
        assert DamagedRow.of_page("data") in archive.damage.all()
        with pytest.raises(BusyError):
            archive.settle(Settlement(2, data={("a", "0150"): None}))
        archive.settle(Settlement(2, forget_data=True, data={(row.machine, row.key): row.value for row in left}))
        assert ([*archive.data()], archive.lost_data, seen(str(file))) == (sorted(left), [], [])


@pytest.mark.parametrize("seed", range(5))
def test_sums_are_right_whatever_is_kept_and_removed(file: str, seed: int) -> None:
    rng, held = random.Random(seed), dict[tuple[str, str], bytes]()
    for lsn in range(1, 30):
        changes: dict[tuple[str, str], bytes | None] = {}
        for _ in range(rng.choice([0, 1, 5, 400])):
            value = None if rng.random() < 0.4 else rng.randbytes(rng.randrange(4))
            changes[rng.choice("st"), str(rng.randrange(300))] = value
        for key, kept in changes.items():
            held.pop(key, None)
            if kept is not None:
                held[key] = kept
        with closing(open_archive(file)) as archive:
            archive.settle(Settlement(lsn, data=changes, forget=rng.random() < 0.2))
            assert {(row.machine, row.key): row.value for row in archive.data()} == held
            assert (archive.lost_data, seen(file)) == ([], [])


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, dict[tuple[str, str], bytes]]:
    """The file of an archive that keeps many rows, one that was the same before the last settlement, and the rows."""
    file = tmp_path_factory.mktemp("full") / "state.sqlite"
    held = {("abc"[number % 3], f"{number:03d}"): bytes([number % 256]) * 150 for number in range(400)}
    files = []
    with closing(open_archive(str(file))) as archive:
        for lsn in (1, 2):
            changes = {key: value for number, (key, value) in enumerate(held.items()) if lsn == 1 or number % 7 == 0}
            held |= {key: value + b"%d" % lsn for key, value in changes.items()}
            archive.settle(Settlement(lsn, [StateRow(b"p", b"e")], meta={"k": b"v"}, data=dict(held)))
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            files.append(file.read_bytes())
    return files[1], files[0], held


def _pairs(page: bytes) -> set[bytes]:
    return {page[at : at + 2] for at in range(len(page))}


@pytest.mark.parametrize("seed", range(120))
def test_whatever_becomes_of_its_pages_each_row_that_is_not_given_is_told(
    full: tuple[bytes, bytes, dict[tuple[str, str], bytes]], tmp_path: Path, seed: int
) -> None:
    whole, older, held = full
    rng, content, size = random.Random(seed), bytearray(whole), 8192
    pages = [at for at in range(0, len(whole), size) if {b"a0", b"c3"} & _pairs(whole[at : at + size])]
    page = rng.choice(pages)
    match seed % 4:
        case 0:
            content[page + rng.randrange(size)] ^= 1 << rng.randrange(8)
        case 1:
            begin = page + 512 * rng.randrange(16)
            content[begin : begin + 512] = bytes(512)
        case 2:
            content[page : page + size] = older[page : page + size]
        case 3:
            other = rng.choice(pages)
            content[page : page + size] = whole[other : other + size]
    file = tmp_path / "state.sqlite"
    file.write_bytes(content)
    try:
        archive = open_archive(str(file))
    except LogDamagedError:
        return  # it was another table's page
    with closing(archive):
        given = {(row.machine, row.key): row.value for row in archive.data()}
        lost = set(archive.lost_data)
        assert given.keys() <= held.keys()
        wrong = [key for key, value in held.items() if given.get(key) != value]
        assert [key for key in wrong if key not in lost and (key[0], None) not in lost] == []
        if seed % 4 == 0:
            assert len(wrong) <= 1 or DamagedRow.of_page("data") in archive.damage.all()
        archive.settle(Settlement(3, [StateRow(b"p", b"e")], forget=True, forget_data=True, data=dict(given)))
        assert ({(row.machine, row.key): row.value for row in archive.data()}, archive.lost_data) == (given, [])


def test_copy_has_the_rows(archive: Archive, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    write_copy(archive.path, copy)
    check_copy(copy)
    with closing(open_archive(copy)) as found:
        assert ([*found.data()], found.lost_data, found.slots()) == ([A, B, C], [], [])


def test_file_shrinks_within_when_rows_go(file: str) -> None:
    held: dict[tuple[str, str], bytes | None] = {("s", f"{number:05d}"): bytes(100) for number in range(5000)}
    with closing(open_archive(file)) as archive:
        archive.settle(Settlement(1, data=held))
        before = archive.sizes()
        archive.settle(Settlement(2, data=dict.fromkeys(held)))
        after = archive.sizes()
        assert before.free_bytes < 100_000 < 400_000 < after.free_bytes
