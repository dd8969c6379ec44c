"""What is said of damage, and kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from distkv.storage.archive import Settlement, open_archive
from distkv.storage.archive_rows import DamagedRow


def test_place_whose_name_is_no_text_any_more_is_kept_and_shown(tmp_path: Path) -> None:
    name = b"to\xef\xbfk".decode(errors="surrogateescape")
    damage = DamagedRow(f"meta, {name}")
    assert damage.place == "meta, to\\udcef\\udcbfk"
    with closing(open_archive(str(tmp_path / "state.sqlite"))) as archive:
        archive.damage.note(damage)
        archive.settle(Settlement(1))
    with closing(open_archive(str(tmp_path / "state.sqlite"))) as again:
        assert list(again.damage.all()) == [damage]


def declare(disk: sqlite3.Connection, old: str, new: str) -> None:
    """Write one column of the table in another way, and leave its rows as they are."""
    disk.execute("PRAGMA writable_schema = ON")
    change = "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = 'damage'"
    disk.execute(change, (f"({old}, path", f"({new}, path"))
    disk.execute("PRAGMA writable_schema = RESET")


@pytest.mark.parametrize("place", [None, 5, b"x"])
def test_row_of_another_table_in_its_place_is_left_out(tmp_path: Path, place: object) -> None:
    """As of a page that stands where another one belongs. A table that refuses NULL does not refuse what is there."""
    path = str(tmp_path / "state.sqlite")
    damage = DamagedRow("meta, tick")
    with closing(open_archive(path)) as archive:
        archive.damage.note(damage)
        archive.settle(Settlement(1))
    with closing(sqlite3.connect(path)) as disk, disk:
        declare(disk, "place TEXT NOT NULL", "place")
        disk.execute("INSERT INTO damage VALUES (?, NULL, NULL, 1.0, 1)", (place,))
        declare(disk, "place", "place TEXT NOT NULL")
    with closing(open_archive(path)) as again:
        assert list(again.damage.all()) == [damage]
