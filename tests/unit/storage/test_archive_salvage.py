"""Pages of the archive that SQLite cannot read: what the others hold stays, and the file can be used again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from distkv.errors import BusyError, DamagedError, LogDamagedError
from distkv.storage.archive import Archive, Settlement, open_archive
from distkv.storage.archive_connection import PAGE_BYTES
from distkv.storage.archive_rows import DamagedRow, HistoryRow, LedgerRow, SlotRow, StateRow
from distkv.storage.archive_scrub import parts

ROWS = 1000
LARGE = 97
"""Each so-manieth record takes several pages of its own."""
STATES = [StateRow(b"p%02d" % number, b"entry" * 100) for number in range(50)]

SLOTS = [SlotRow("s", "a", b"1"), SlotRow("s", "b", b"2")]


def _row(lsn: int) -> HistoryRow:
    record = b"record %d " % lsn * (3000 if lsn % LARGE == 0 else 10)
    return HistoryRow(lsn, b"p%02d" % (lsn % 50), "a", 2**32 + lsn, float(lsn), record, True)


def _batch(lsn: int, *, forget: bool) -> Settlement:
    """The row behind all the others; `forget` brings the whole state again."""
    states = STATES if forget else STATES[:1]
    history, ledger = [_row(lsn - 1)], [LedgerRow("a", 1, b"b")]
    return Settlement(lsn, states, (), history, ledger, {"k": b"v"}, forget, len(STATES), slots=SLOTS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "state.sqlite"
    with closing(open_archive(str(path))) as archive:
        ledger = [LedgerRow("a", 1, b"b")]
        rows = list(map(_row, range(ROWS)))
        archive.settle(Settlement(ROWS, STATES, (), rows, ledger, {"k": b"v"}, False, len(STATES), slots=SLOTS))
    return path.read_bytes()


def _pages(path: Path, table: str) -> list[int]:
    """The numbers of the pages of a table or an index, the first one leads to the others."""
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    data, pages, found = path.read_bytes(), [root], []
    while pages:
        number = pages.pop()
        found.append(number)
        page = data[(number - 1) * PAGE_BYTES : number * PAGE_BYTES]
        if page[0] in (2, 5):  # an inner page: each cell begins with the number of a page, and the header ends with one
            cells = int.from_bytes(page[3:5], "big")
            places = [int.from_bytes(page[at : at + 2], "big") for at in range(12, 12 + 2 * cells, 2)]
            pages += [int.from_bytes(page[at : at + 4], "big") for at in (*places, 8)]
    return found


def _with_zeros(path: Path, whole: bytes, number: int) -> None:
    zeroed = bytearray(whole)
    zeroed[(number - 1) * PAGE_BYTES : number * PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(zeroed)


def _found(path: Path) -> list[DamagedRow]:
    return [damage for part in parts(str(path)) for damage in part.damaged]


def _mend(archive: Archive, path: Path) -> None:
    """As a running node does, which may have met the damage when it settled."""
    found = _found(path)
    try:
        archive.settle(_batch(ROWS + 1, forget=False))
    except BusyError:
        assert archive.settled_lsn == ROWS
    if not all(damage.is_past for damage in found):
        archive.settle(_batch(archive.settled_lsn + 1, forget=True))
    if any(damage.is_past for damage in found):
        archive.mend_history()
    if archive.settled_lsn == ROWS:
        archive.settle(_batch(ROWS + 1, forget=False))


TABLES = ["state", "ledger", "meta", "slots", "history", "history_by_path", "history_by_tick", "history_by_arrival"]


@pytest.mark.parametrize("table", TABLES)
def test_whatever_page_cannot_be_read_the_others_stay_and_the_file_is_whole_again(
    tmp_path: Path, whole: bytes, table: str
) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(whole)
    pages = _pages(path, table)
    assert len(pages) > 5 or table != "history"
    for number in pages[:: max(1, len(pages) // 6)]:
        for more in ("-wal", "-shm"):
            path.with_name(path.name + more).unlink(missing_ok=True)
        _with_zeros(path, whole, number)
        with closing(open_archive(str(path))) as archive:
            assert _found(path)
            _mend(archive, path)
            assert _found(path) == []
            rows = list(archive.past.rows())
            assert [row for row in rows if row.lsn < ROWS] == [_row(row.lsn) for row in rows if row.lsn < ROWS]
            lost = ROWS - sum(row.lsn < ROWS for row in rows)
            if table != "history":
                assert lost == 0
            elif number != pages[0]:
                assert 0 < lost < ROWS // 2
        with closing(open_archive(str(path))) as again:
            assert list(again.load()) == STATES
            assert (again.ledger(), again.meta()) == ([LedgerRow("a", 1, b"b")], {"k": b"v"})
            assert again.slots() == SLOTS


@pytest.mark.parametrize("which", [0, 5, -2, -1])
def test_gap_that_a_page_leaves_is_told_with_its_rows(tmp_path: Path, whole: bytes, which: int) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(whole)
    contents = {
        number: whole[(number - 1) * PAGE_BYTES : number * PAGE_BYTES] for number in _pages(path, "history")
    }
    leaves = [number for number, page in contents.items() if page[0] == 13 and int.from_bytes(page[3:5], "big") > 1]
    number, page = leaves[which], contents[leaves[which]]
    told: list[DamagedRow] = []
    _with_zeros(path, whole, number)
    with closing(open_archive(str(path), told.append)) as archive:
        archive.mend_history()
        lsns = [row.lsn for row in archive.past.rows()]
        gone = sorted({*range(ROWS)} - {*lsns})
        assert gone == [*range(gone[0], gone[-1] + 1)]
        assert len(gone) == int.from_bytes(page[3:5], "big")  # as many as the leaf has cells
        assert told == [DamagedRow(f"history, rows {gone[0]} to {gone[-1]}", None, gone[-1])]
        assert archive.past.begin == gone[-1] + 1


def test_history_that_cannot_be_read_is_refused_and_noted(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(whole)
    _with_zeros(path, whole, _pages(path, "history")[0])
    with closing(open_archive(str(path))) as archive:
        for ask in (
            lambda: archive.past.of_path(b"p01", 10),
            lambda: archive.past.latest_at(b"p01", 5.0),
            lambda: archive.past.by_ticks("a", 0, 2**40, 10),
            lambda: archive.past.won_since(0, 10),
        ):
            with pytest.raises(DamagedError, match="cannot be read: ask another node"):
                ask()
        assert list(archive.damage.all()) == [DamagedRow.of_page("history")]


def test_page_of_what_says_how_far_it_is_cannot_be_made_up(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(whole)
    _with_zeros(path, whole, _pages(path, "progress")[0])
    with pytest.raises(LogDamagedError, match=r"how far it is|malformed"):
        open_archive(str(path))
