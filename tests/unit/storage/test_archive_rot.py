"""Pages of the archive that rot while every row is intact: what leads to a row, and which rows stand where."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from distkv.errors import DamagedError
from distkv.storage.archive import Archive, Settlement, open_archive
from distkv.storage.archive_connection import PAGE_BYTES
from distkv.storage.archive_rows import DamagedRow, HistoryRow, LedgerRow, check_history
from distkv.storage.archive_scrub import parts

_TABLE_LEAF = 13


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An archive with a history of many pages, of a path that was written at each second."""
    path = tmp_path / "state.sqlite"
    with closing(open_archive(str(path))) as archive:
        archive.settle(Settlement(lsn=300, history=list(map(_row, range(300)))))
    return path


@pytest.fixture
def archive(path: Path) -> Iterator[Archive]:
    with closing(open_archive(str(path))) as archive:
        yield archive


def _row(lsn: int) -> HistoryRow:
    return HistoryRow(lsn, b"p", "a", lsn, float(lsn), b"record %d" % lsn * 20, True)


@contextmanager
def _without_indexes(path: Path) -> Iterator[sqlite3.Connection]:
    """What is changed inside, no index hears of."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        indexes = connection.execute("SELECT * FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL").fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", indexes)


def _lead_past(path: Path, index: str, lsn: int) -> None:
    """An index lacks a row, and says that it has all."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
        connection.execute(f"DROP INDEX {index}")
        connection.execute(f"{sql} WHERE lsn <> {lsn}")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, index))


def _put_leaf_over_another(path: Path) -> None:
    """Of the leaves of the history, the last but one stands where the second belongs, too."""
    data = path.read_bytes()
    pages = [data[at : at + PAGE_BYTES] for at in range(0, len(data), PAGE_BYTES)]
    leaves = [number for number, page in enumerate(pages) if page[0] == _TABLE_LEAF and b"record " in page]
    assert len(leaves) > 4
    pages[leaves[1]] = pages[leaves[-2]]
    path.write_bytes(b"".join(pages))


@pytest.mark.parametrize(
    "row",
    [_row(200)._replace(path=b"q"), _row(200)._replace(arrived=250.0), _row(200)._replace(won=False)],
    ids=["path", "arrived", "won"],
)
def test_value_at_a_time_is_refused_where_the_index_leads_to_another_row(path: Path, row: HistoryRow) -> None:
    with _without_indexes(path) as connection:
        connection.execute(
            "UPDATE history SET path = ?, arrived = ?, won = ?, checked = ? WHERE lsn = ?",
            (row.path, row.arrived, row.won, check_history(row), row.lsn),
        )
    with closing(open_archive(str(path))) as archive:
        with pytest.raises(DamagedError, match="not certain"):
            archive.past.latest_at(b"p", 200.5)
        found = archive.past.latest_at(b"p", 201.5)
        assert found is not None
        assert found.lsn == 201


def test_value_at_a_time_is_refused_where_the_index_leads_past_the_row(path: Path) -> None:
    _lead_past(path, "history_by_path", 200)
    with closing(open_archive(str(path))) as archive:
        with pytest.raises(DamagedError, match="cannot be read"):
            archive.past.latest_at(b"p", 200.5)
        archive.mend_history()
        found = archive.past.latest_at(b"p", 200.5)
        assert found is not None
        assert found.lsn == 200


def test_value_at_a_time_is_refused_where_the_row_is_gone_that_the_index_leads_to(path: Path) -> None:
    with _without_indexes(path) as connection:
        connection.execute("DELETE FROM history WHERE lsn <= 200")
    with closing(open_archive(str(path))) as archive, pytest.raises(DamagedError, match="cannot be read"):
        archive.past.latest_at(b"p", 200.5)


def test_listing_of_all_has_what_is_left_where_a_page_stands_in_another_ones_place(path: Path) -> None:
    _put_leaf_over_another(path)
    with closing(open_archive(str(path))) as archive:
        rows = list(archive.past.rows())
        assert rows == [_row(row.lsn) for row in rows]
        assert {0, 299} < {row.lsn for row in rows} < {*range(300)}
        archive.mend_history()
        assert list(archive.past.rows()) == sorted({*rows})


def test_changes_since_are_not_whole_where_a_page_stands_in_another_ones_place(path: Path) -> None:
    _put_leaf_over_another(path)
    with closing(open_archive(str(path))) as archive:
        assert archive.past.begin == 0
        with pytest.raises(DamagedError):
            archive.past.won_since(0, 1000)
        assert archive.past.begin > 200


def test_intact_history_is_certain_from_its_beginning(archive: Archive) -> None:
    assert archive.past.won_since(0, 1000) == list(archive.past.rows())
    assert archive.past.begin == 0


@pytest.mark.parametrize("change", ["DELETE FROM progress", "INSERT INTO progress SELECT * FROM progress"])
def test_row_that_says_how_far_the_archive_is_is_found_damaged_and_written_anew(path: Path, change: str) -> None:
    with closing(open_archive(str(path))) as archive:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(change)
            connection.commit()
        assert [damage.place for part in parts(str(path)) for damage in part.damaged] == ["progress"]
        archive.settle(Settlement(lsn=301))
        assert [damage for part in parts(str(path)) for damage in part.damaged] == []
    with closing(open_archive(str(path))) as archive:
        assert archive.settled_lsn == 301


def test_look_names_a_book_that_is_of_another_type_now(path: Path) -> None:
    with closing(open_archive(str(path))) as archive:
        archive.settle(Settlement(lsn=301, ledger=[LedgerRow("a", 0, b"book")]))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE ledger SET book = 1")
        connection.commit()
    assert [damage.place for part in parts(str(path)) for damage in part.damaged] == ["ledger, a:0"]


def test_last_look_that_cannot_be_read_counts_as_none(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO scrub VALUES ('x', 1, 1, 0)")
        connection.commit()
    with closing(open_archive(str(path))) as archive:
        assert archive.last_scrub is None


@pytest.mark.parametrize("from_table", [True, False], ids=["table", "index"])
def test_rows_that_vanished_are_missed_before_the_first_answer(path: Path, from_table: bool) -> None:
    """As when the disk lost the write of a page: each row that is left checks."""
    if from_table:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("DELETE FROM history WHERE lsn BETWEEN 100 AND 120")
    else:
        _lead_past(path, "history_by_tick", 200)
    with closing(open_archive(str(path))) as archive:
        for _ in range(2):
            with pytest.raises(DamagedError, match="distkv client scrub"):
                archive.past.of_path(b"p", 1000)
        (damage,) = archive.damage.all()
        assert (archive.past.begin == 300) == from_table == (damage.lsn is not None)
        archive.mend_history()
        assert len(archive.past.of_path(b"p", 1000)) == (279 if from_table else 300)


def test_row_that_moved_with_its_indexes_makes_what_its_path_held_uncertain(path: Path) -> None:
    """The last row of the path stands behind the last but one, in the place of another path's row."""
    with closing(open_archive(str(path))) as archive:
        archive.settle(Settlement(lsn=303, history=[_row(300)._replace(path=b"q"), _row(301), _row(302)]))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for old, new in ((300, -1), (302, 300), (-1, 302)):
            connection.execute("UPDATE history SET lsn = ? WHERE lsn = ?", (new, old))
    with closing(open_archive(str(path))) as archive:
        with pytest.raises(DamagedError, match="not certain"):
            archive.past.latest_at(b"p", 302.5)
        found = archive.past.latest_at(b"p", 301.5)
        assert found is not None
        assert found.lsn == 301


def test_tick_whose_row_is_known_to_be_damaged_has_no_content(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE history SET checked = checked + 1 WHERE lsn = 200")
        connection.commit()
    with closing(open_archive(str(path))) as archive:
        assert archive.past.ticks("a", 198, 203) == [198, 199, 200, 201, 202]
        archive.past.by_ticks("a", 0, 300, 300)
        assert archive.past.ticks("a", 198, 203) == [198, 199, 201, 202]
        archive.damage.note(DamagedRow("history, rows behind row 200", None, 201))  # row 201 itself is whole
        assert archive.past.ticks("a", 198, 203) == [198, 199, 201, 202]
