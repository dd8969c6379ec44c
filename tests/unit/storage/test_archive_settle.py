"""What is settled is read back: state, ledger, meta, and the history by path, tick and time."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.errors import ExistsError
from distkv.storage.archive import Archive, Settlement, open_archive
from distkv.storage.archive_copy import write_copy
from distkv.storage.archive_rows import INSERT_ROWS, HistoryRow, LedgerRow, StateRow


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    archive = open_archive(str(tmp_path / "state.sqlite"))
    yield archive
    archive.close()


def _row(
    lsn: int,
    path: bytes = b"p",
    node: str = "a",
    tick: int | None = None,
    arrived: float | None = None,
    won: bool = True,
) -> HistoryRow:
    at = float(lsn) if arrived is None else arrived
    return HistoryRow(lsn, path, node, lsn if tick is None else tick, at, b"record %d" % lsn, won)


def _lsns(rows: list[HistoryRow]) -> list[int]:
    return [row.lsn for row in rows]


# -- state, ledger, meta ------------------------------------------------------------------------------------------


def test_new_archive_is_empty(archive: Archive) -> None:
    assert archive.settled_lsn == 0
    assert (list(archive.load()), archive.ledger(), archive.meta()) == ([], [], {})


def test_settled_rows_are_there_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "state.sqlite")
    batch = Settlement(
        lsn=5,
        states=[StateRow(b"b\0", b"entry of b"), StateRow(b"a\xff", b"")],
        history=[_row(1), _row(3)],
        ledger=[LedgerRow("b", 0, b"book"), LedgerRow("a", 1, b""), LedgerRow("a", 0, b"older")],
        meta={"tick": b"\0\1", "life": b""},
    )
    archive = open_archive(path)
    archive.settle(batch)
    archive.close()
    again = open_archive(path)
    assert again.settled_lsn == 5
    assert list(again.load()) == [StateRow(b"a\xff", b""), StateRow(b"b\0", b"entry of b")]
    assert again.ledger() == [LedgerRow("a", 0, b"older"), LedgerRow("a", 1, b""), LedgerRow("b", 0, b"book")]
    assert again.meta() == {"tick": b"\0\1", "life": b""}
    assert again.past.of_path(b"p", 10) == [_row(3), _row(1)]
    assert again.sizes().history_rows == 2
    again.close()


def test_later_rows_replace_those_with_the_same_key(archive: Archive) -> None:
    archive.settle(
        Settlement(1, [StateRow(b"a", b"1"), StateRow(b"b", b"1")], (), (), [LedgerRow("n", 0, b"1")], {"k": b"1"})
    )
    archive.settle(
        Settlement(2, [StateRow(b"b", b"2"), StateRow(b"c", b"2")], (), (), [LedgerRow("n", 0, b"2")], {"l": b"2"})
    )
    assert list(archive.load()) == [StateRow(b"a", b"1"), StateRow(b"b", b"2"), StateRow(b"c", b"2")]
    assert archive.ledger() == [LedgerRow("n", 0, b"2")]
    assert archive.meta() == {"k": b"1", "l": b"2"}


def test_dropped_path_is_gone_and_an_unknown_one_does_not_matter(archive: Archive) -> None:
    archive.settle(Settlement(1, states=[StateRow(b"a", b""), StateRow(b"b", b"")]))
    archive.settle(Settlement(2, dropped_paths=[b"a", b"never there"]))
    assert list(archive.load()) == [StateRow(b"b", b"")]


def test_path_dropped_and_written_in_one_batch_is_there(archive: Archive) -> None:
    archive.settle(Settlement(1, states=[StateRow(b"a", b"old")]))
    archive.settle(Settlement(2, states=[StateRow(b"a", b"new")], dropped_paths=[b"a"]))
    assert list(archive.load()) == [StateRow(b"a", b"new")]


def test_forget_empties_all_but_the_history_before_the_batch(archive: Archive) -> None:
    archive.settle(Settlement(1, [StateRow(b"a", b"")], (), [_row(0)], [LedgerRow("n", 0, b"")], {"k": b""}))
    anew = Settlement(2, [StateRow(b"b", b"")], (), [_row(1)], [LedgerRow("m", 0, b"")], {"l": b""}, forget=True)
    archive.settle(anew)
    assert list(archive.load()) == [StateRow(b"b", b"")]
    assert archive.ledger() == [LedgerRow("m", 0, b"")]
    assert archive.meta() == {"l": b""}
    assert _lsns(archive.past.of_path(b"p", 10)) == [1, 0]


def test_largest_numbers_come_back_as_they_were(archive: Archive) -> None:
    row = HistoryRow(2**62, b"", "ä" * 50, 2**63 - 1, 1e308, bytes(range(256)), True)
    book = LedgerRow("", 2**31 - 1, b"\0")
    archive.settle(Settlement(2**63 - 1, history=[row], ledger=[book]))
    assert archive.settled_lsn == 2**63 - 1
    assert archive.past.by_ticks("ä" * 50, 0, 2**63 - 1, 10) == []
    assert archive.past.latest_at(b"", 1e308) == row
    assert archive.ledger() == [book]


@pytest.mark.parametrize(
    "batch",
    [
        Settlement(9),
        Settlement(12, history=[_row(9)]),
        Settlement(12, history=[_row(12)]),
        Settlement(12, history=[_row(11), _row(10)]),
        Settlement(12, history=[_row(10), _row(10)]),
        Settlement(10, history=[_row(10)]),
    ],
    ids=["lower", "row-below", "row-above", "falling", "twice", "row-in-nothing"],
)
def test_batch_that_does_not_follow_is_refused_and_changes_nothing(archive: Archive, batch: Settlement) -> None:
    archive.settle(Settlement(10, states=[StateRow(b"a", b"")], history=[_row(9)]))
    with pytest.raises(ValueError, match="history must rise from lsn 10"):
        archive.settle(batch)
    assert (archive.settled_lsn, archive.sizes().history_rows) == (10, 1)
    archive.settle(Settlement(12, history=[_row(10), _row(11)]))
    assert archive.settled_lsn == 12


def test_batch_that_fails_in_its_middle_leaves_nothing(archive: Archive) -> None:
    archive.settle(Settlement(1, states=[StateRow(b"a", b"1")]))
    with pytest.raises(UnicodeEncodeError):
        archive.settle(Settlement(3, [StateRow(b"a", b"2")], (), [_row(1)], [LedgerRow("\ud800", 0, b"")]))
    assert (archive.settled_lsn, list(archive.load())) == (1, [StateRow(b"a", b"1")])
    assert archive.past.of_path(b"p", 10) == []
    archive.settle(Settlement(3, history=[_row(1)]))
    assert archive.sizes().history_rows == 1


@pytest.mark.parametrize(
    "count", [1, INSERT_ROWS - 1, INSERT_ROWS, INSERT_ROWS + 1, 2 * INSERT_ROWS, 2 * INSERT_ROWS + 3]
)
def test_every_row_of_a_long_batch_is_there_once(archive: Archive, count: int) -> None:
    paths = [b"%04d" % number for number in range(count)]
    archive.settle(Settlement(1, states=[StateRow(path, b"old") for path in paths[::2]]))
    rows = [_row(lsn, path, won=lsn % 3 == 0) for lsn, path in enumerate(paths, 1)]
    archive.settle(Settlement(count + 1, states=[StateRow(path, b"new " + path) for path in paths], history=rows))
    assert list(archive.load()) == [StateRow(path, b"new " + path) for path in paths]
    assert archive.past.by_ticks("a", 0, count + 1, count + 1) == rows


# -- history ------------------------------------------------------------------------------------------------------


def test_history_of_a_path_is_newest_first_and_goes_on_before_an_lsn(archive: Archive) -> None:
    archive.settle(Settlement(20, history=[_row(lsn, b"p" if lsn % 2 else b"pp") for lsn in range(20)]))
    assert _lsns(archive.past.of_path(b"p", 4)) == [19, 17, 15, 13]
    assert _lsns(archive.past.of_path(b"p", 4, before_lsn=13)) == [11, 9, 7, 5]
    assert _lsns(archive.past.of_path(b"p", 4, before_lsn=2)) == [1]
    assert archive.past.of_path(b"q", 4) == []


def test_latest_at_is_the_last_that_had_arrived(archive: Archive) -> None:
    rows = [_row(0, arrived=10.0), _row(1, b"q", arrived=15.0), _row(2, arrived=20.0), _row(3, arrived=30.0)]
    archive.settle(Settlement(4, history=rows))
    found = [archive.past.latest_at(b"p", at) for at in (9.9, 10.0, 19.9, 20.0, 1e9)]
    assert found == [None, rows[0], rows[0], rows[2], rows[3]]


def test_latest_at_goes_by_order_of_arrival_when_the_clock_stepped_back(archive: Archive) -> None:
    rows = [_row(0, arrived=100.0), _row(1, arrived=90.0)]
    archive.settle(Settlement(2, history=rows))
    assert [archive.past.latest_at(b"p", at) for at in (95.0, 100.0)] == [rows[1], rows[1]]


def test_by_ticks_gives_one_node_in_order_of_tick(archive: Archive) -> None:
    ticks = [("a", 5), ("b", 3), ("a", 4), ("a", 7), ("a", 6)]
    archive.settle(Settlement(5, history=[_row(lsn, node=node, tick=tick) for lsn, (node, tick) in enumerate(ticks)]))
    assert _lsns(archive.past.by_ticks("a", 4, 7, 10)) == [2, 0, 4]
    assert _lsns(archive.past.by_ticks("a", 4, 7, 2)) == [2, 0]
    assert archive.past.by_ticks("c", 0, 10, 10) == []


# -- beside each other --------------------------------------------------------------------------------------------


def test_reading_during_a_settlement_sees_what_was_before(archive: Archive) -> None:
    archive.settle(Settlement(1, states=[StateRow(b"a", b"1")], history=[_row(0)]))
    seen: list[tuple[list[StateRow], list[int]]] = []

    class Watched(list[StateRow]):
        """Rows that look at the archive while they are being written."""

        def __iter__(self) -> Iterator[StateRow]:
            thread = threading.Thread(
                target=lambda: seen.append((list(archive.load()), _lsns(archive.past.of_path(b"p", 10))))
            )
            thread.start()
            thread.join(10)
            return super().__iter__()

    archive.settle(Settlement(2, Watched([StateRow(b"a", b"2")]), [b"a"], [_row(1)]))
    assert seen == [([StateRow(b"a", b"1")], [0])]
    assert list(archive.load()) == [StateRow(b"a", b"2")]


def test_load_shows_one_moment(archive: Archive) -> None:
    archive.settle(Settlement(1, states=[StateRow(b"%d" % n, b"old") for n in range(9)]))
    rows = archive.load()
    first = next(rows)
    archive.settle(Settlement(2, states=[StateRow(b"%d" % n, b"new") for n in range(9)]))
    assert {row.entry for row in [first, *rows]} == {b"old"}


def test_threads_share_one_archive(archive: Archive) -> None:
    def settle() -> None:
        for lsn in range(40):
            archive.settle(Settlement(lsn + 1, history=[_row(lsn)]))

    def read() -> None:
        while archive.settled_lsn < 40 and writer.is_alive():
            lsns = _lsns(archive.past.of_path(b"p", 100))
            broken.extend(lsns if lsns != list(range(len(lsns)))[::-1] else [])

    broken: list[int] = []
    writer = threading.Thread(target=settle)
    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in [writer, *readers]:
        thread.start()
    for thread in [writer, *readers]:
        thread.join(60)
    assert (broken, archive.settled_lsn) == ([], 40)


# -- housekeeping -------------------------------------------------------------------------------------------------


def _filled(archive: Archive) -> None:
    archive.settle(Settlement(10, [StateRow(b"p", b"now")], history=[_row(lsn) for lsn in range(10)]))


@pytest.mark.parametrize(
    ("before", "keep", "left"),
    [
        (None, None, range(10)),
        (0.0, None, range(10)),
        (4.0, None, range(4, 10)),
        (99.0, None, range(0)),
        (None, 11, range(10)),
        (None, 3, range(7, 10)),
        (None, 0, range(0)),
        (4.0, 3, range(7, 10)),
        (8.0, 5, range(8, 10)),
    ],
)
@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_prune_leaves_what_is_young_and_among_the_newest(
    archive: Archive, before: float | None, keep: int | None, left: range, chunk: int
) -> None:
    _filled(archive)
    removed = []
    while not removed or removed[-1] == chunk:
        removed.append(archive.prune_history(before=before, keep=keep, chunk=chunk))
    assert _lsns(archive.past.of_path(b"p", 20)) == [*left][::-1]
    assert sum(removed) == 10 - len(left)
    assert archive.sizes().history_rows == len(left)


def test_prune_removes_the_oldest_first_and_one_chunk_at_a_time(archive: Archive) -> None:
    _filled(archive)
    assert archive.prune_history(before=9.0, chunk=2) == 2
    assert _lsns(archive.past.of_path(b"p", 20)) == [9, 8, 7, 6, 5, 4, 3, 2]


def test_prune_leaves_the_state_alone_and_settling_goes_on(archive: Archive) -> None:
    _filled(archive)
    archive.prune_history(keep=0)
    assert list(archive.load()) == [StateRow(b"p", b"now")]
    archive.settle(Settlement(12, history=[_row(10), _row(11)]))
    assert _lsns(archive.past.of_path(b"p", 20)) == [11, 10]


def test_space_of_pruned_rows_is_used_again(archive: Archive) -> None:
    rows = [HistoryRow(lsn, b"p", "a", lsn, 0.0, bytes(500), True) for lsn in range(2000)]
    archive.settle(Settlement(1000, history=rows[:1000]))
    assert archive.prune_history(keep=0) == 1000
    free = archive.sizes().free_bytes
    archive.settle(Settlement(2000, history=rows[1000:]))
    assert free > 400_000
    assert archive.sizes().free_bytes < free / 10


def test_sizes_count_file_and_wal(archive: Archive, tmp_path: Path) -> None:
    archive.settle(Settlement(1, states=[StateRow(b"a", bytes(100_000))]))
    on_disk = sum(os.stat(tmp_path / f"state.sqlite{end}").st_size for end in ("", "-wal"))
    assert archive.sizes().file_bytes == on_disk > 100_000


def test_files_are_for_their_owner_only(archive: Archive, tmp_path: Path) -> None:
    archive.settle(Settlement(1))
    write_copy(archive.path, str(tmp_path / "copy"))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == dict.fromkeys(["state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "copy"], 0o600)


# -- backup -------------------------------------------------------------------------------------------------------


def test_backup_is_an_archive_of_that_moment_in_one_file(archive: Archive, tmp_path: Path) -> None:
    _filled(archive)
    place = tmp_path / "backups"
    place.mkdir()
    write_copy(archive.path, str(place / "copy"))
    archive.settle(Settlement(11, states=[StateRow(b"p", b"later")]))
    assert [file.name for file in place.iterdir()] == ["copy"]
    copy = open_archive(str(place / "copy"))
    assert (copy.settled_lsn, list(copy.load())) == (10, [StateRow(b"p", b"now")])
    assert _lsns(copy.past.of_path(b"p", 20)) == list(range(10))[::-1]
    copy.settle(Settlement(11, states=[StateRow(b"p", b"another way")]))
    copy.close()
    assert list(archive.load()) == [StateRow(b"p", b"later")]


def test_backup_does_not_overwrite(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("mine")
    with pytest.raises(ExistsError, match="copy is there already"):
        write_copy(archive.path, str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_text() == "mine"


def test_backup_goes_over_the_rest_of_one_that_was_killed(archive: Archive, tmp_path: Path) -> None:
    _filled(archive)
    (tmp_path / "copy.part").write_bytes(b"")
    write_copy(archive.path, str(tmp_path / "copy"))
    copy = open_archive(str(tmp_path / "copy"))
    assert copy.settled_lsn == 10
    copy.close()


def test_closing_twice_and_reopening_works(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path / "state.sqlite"))
    _filled(archive)
    archive.close()
    archive.close()
    assert [file.name for file in tmp_path.iterdir()] == ["state.sqlite"], "the WAL went into the file"


def test_event_that_lost_is_in_the_history_and_gave_the_path_nothing(archive: Archive) -> None:
    archive.settle(Settlement(3, history=[_row(1), _row(2, won=False)]))
    assert _lsns(archive.past.of_path(b"p", 9)) == [2, 1]
    latest = archive.past.latest_at(b"p", 99.0)
    assert latest is not None
    assert latest.lsn == 1
