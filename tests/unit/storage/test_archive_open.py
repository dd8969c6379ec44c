"""Opening an archive of each format, of another program, damaged, full or locked; and what its errors say."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from distkv.errors import BusyError, FormatVersionError, LogDamagedError, NoSpaceError, RequestError, StorageFailedError
from distkv.storage.archive import Settlement, open_archive
from distkv.storage.archive_connection import PAGE_BYTES, connect_writer, transaction, translated
from distkv.storage.archive_copy import write_copy
from distkv.storage.archive_rows import DamagedRow, DataRow, HistoryRow, LedgerRow, SlotRow, StateRow
from distkv.storage.archive_schema import APPLICATION_ID, STEPS, Step, create_version_1, prepare

ROOT = Path(__file__).parents[3]

VERSION_1 = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = 1;
CREATE TABLE progress (settled_lsn INTEGER NOT NULL, history_rows INTEGER NOT NULL, history_from INTEGER NOT NULL);
CREATE TABLE state (path BLOB NOT NULL PRIMARY KEY, entry BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE ledger (node TEXT NOT NULL, life INTEGER NOT NULL, book BLOB NOT NULL, PRIMARY KEY (node, life))
    WITHOUT ROWID;
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE history (lsn INTEGER PRIMARY KEY, path BLOB NOT NULL, node TEXT NOT NULL, tick INTEGER NOT NULL,
    arrived REAL NOT NULL, record BLOB NOT NULL, won INTEGER NOT NULL);
CREATE INDEX history_by_path ON history (path, lsn, arrived, won);
CREATE INDEX history_by_tick ON history (node, tick);
CREATE INDEX history_by_arrival ON history (arrived);
INSERT INTO progress VALUES (7, 2, 0);
INSERT INTO state VALUES (x'6100', x'00ff');
INSERT INTO ledger VALUES ('n', 1, x'01');
INSERT INTO meta VALUES ('tick', x'05');
INSERT INTO history VALUES (3, x'6100', 'n', 4294967297, 1.5, x'aa', 1), (6, x'6100', 'm', 1, 2.5, x'bb', 0);
"""
"""A file as the first release left it. It stays as it is: such files exist."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "state.sqlite")


def _make(file: str, script: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
        connection.commit()


def _shape(file: str) -> list[tuple[str, str]]:
    """What a file's tables and indexes are made of, whatever the layout of the text."""
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    return [(name, re.sub(r"\s+|--[^\n]*", "", sql)) for name, sql in rows]


# -- formats ------------------------------------------------------------------------------------------------------


def test_archive_of_version_1_is_read(file: str) -> None:
    _make(file, VERSION_1)
    archive = open_archive(file)
    assert archive.settled_lsn == 7
    assert list(archive.load()) == [StateRow(b"a\0", b"\0\xff")]
    assert archive.ledger() == [LedgerRow("n", 1, b"\1")]
    assert archive.meta() == {"tick": b"\5"}
    assert archive.past.of_path(b"a\0", 9) == [
        HistoryRow(6, b"a\0", "m", 1, 2.5, b"\xbb", False),
        HistoryRow(3, b"a\0", "n", 2**32 + 1, 1.5, b"\xaa", True),
    ]
    archive.settle(Settlement(8, [StateRow(b"b", b"")], (), [HistoryRow(7, b"b", "n", 2**32 + 2, 3.0, b"", True)]))
    assert archive.sizes().history_rows == 3
    archive.close()


VERSION_2 = """
PRAGMA user_version = 2;
ALTER TABLE state ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN state_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN segment INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN ledger_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN meta_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
CREATE TABLE damage (place TEXT NOT NULL, path BLOB, lsn INTEGER, found REAL NOT NULL, checked INTEGER NOT NULL);
CREATE TABLE scrub (
    begun REAL NOT NULL, ended REAL NOT NULL, row_count INTEGER NOT NULL, damaged INTEGER NOT NULL
);
"""
"""What the second step made of it. It stays as it is, too; the checksums are those of `prepare`."""


def test_second_step_makes_version_2_as_it_was_released(file: str, tmp_path: Path) -> None:
    fixture = str(tmp_path / "fixture")
    _make(fixture, VERSION_1 + VERSION_2)
    with closing(connect_writer(file)) as connection:
        prepare(connection, file, STEPS[:2])
    assert _shape(file) == _shape(fixture)


def test_archive_of_version_2_has_no_slots_and_gets_some(file: str) -> None:
    _make(file, VERSION_1)
    with closing(connect_writer(file)) as connection:
        prepare(connection, file, STEPS[:2])
    with closing(open_archive(file)) as archive:
        assert (archive.settled_lsn, archive.slots()) == (7, [])
        archive.settle(Settlement(8, slots=[SlotRow("s", "k", b"v")]))
    with closing(open_archive(file)) as archive:
        assert archive.slots() == [SlotRow("s", "k", b"v")]


def test_archive_of_version_3_has_no_data_and_gets_some(file: str) -> None:
    _make(file, VERSION_1)
    with closing(connect_writer(file)) as connection:
        prepare(connection, file, STEPS[:3])
    with closing(open_archive(file)) as archive:
        assert (archive.settled_lsn, [*archive.data()], archive.lost_data) == (7, [], [])
        assert archive.meta() == {"tick": b"\5"}
        archive.settle(Settlement(8, data={("s", "k"): b"v"}))
    with closing(open_archive(file)) as archive:
        assert ([*archive.data()], archive.lost_data) == ([DataRow("s", "k", b"v")], [])


def test_archive_of_version_4_is_refused_by_the_release_before(file: str) -> None:
    open_archive(file).close()
    refused = "has format 4, this release reads up to 3: start the release that wrote it"
    with closing(connect_writer(file)) as connection, pytest.raises(FormatVersionError, match=refused):
        prepare(connection, file, STEPS[:3])


def test_archive_of_version_2_whose_end_is_damaged_stays_so(file: str) -> None:
    _make(file, VERSION_1)
    with closing(connect_writer(file)) as connection:
        prepare(connection, file, STEPS[:2])
        connection.execute("UPDATE progress SET settled_lsn = 6")
    with pytest.raises(LogDamagedError, match="how far it is does not check"):
        open_archive(file)


def test_first_step_makes_version_1_as_it_was_released(file: str, tmp_path: Path) -> None:
    fixture = str(tmp_path / "fixture")
    _make(fixture, VERSION_1)
    with closing(connect_writer(file)) as connection:
        prepare(connection, file, STEPS[:1])
    assert _shape(file) == _shape(fixture)


def _add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE state ADD COLUMN extra INTEGER NOT NULL DEFAULT 5")


def _fill_column(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE state SET extra = extra + length(entry)")


def _fail(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM state")
    raise sqlite3.OperationalError("this step fails")


@pytest.mark.parametrize("begin", ["", VERSION_1], ids=["empty", "version-1"])
def test_steps_are_taken_from_the_version_that_is_there(file: str, begin: str) -> None:
    _make(file, begin)
    with closing(connect_writer(file)) as connection:
        prepare(connection, file, [create_version_1, _add_column, _fill_column])
        rows = connection.execute("SELECT path, extra FROM state").fetchall()
        assert rows == ([(b"a\0", 7)] if begin else [])
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)


def test_steps_are_taken_once(file: str) -> None:
    _make(file, VERSION_1)
    steps: list[Step] = [create_version_1, _add_column]
    for more in ([], [], [_fill_column], []):
        steps += more
        with closing(connect_writer(file)) as connection:
            prepare(connection, file, steps)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT extra FROM state").fetchall() == [(7,)]


def test_migration_that_fails_leaves_the_file_as_it_was(file: str) -> None:
    _make(file, VERSION_1)
    shape = _shape(file)
    with closing(connect_writer(file)) as connection, pytest.raises(sqlite3.OperationalError, match="this step fails"):
        prepare(connection, file, [create_version_1, _add_column, _fail])
    assert _shape(file) == shape
    archive = open_archive(file)
    assert list(archive.load()) == [StateRow(b"a\0", b"\0\xff")]
    archive.close()


def test_newer_format_is_refused_and_left_alone(file: str) -> None:
    _make(file, VERSION_1 + f"PRAGMA user_version = {len(STEPS) + 1};")
    with pytest.raises(FormatVersionError, match=f"has format {len(STEPS) + 1}, this release reads up to {len(STEPS)}"):
        open_archive(file)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)


@pytest.mark.parametrize("script", ["CREATE TABLE notes (text)", "PRAGMA user_version = 1"], ids=["table", "version"])
def test_database_of_another_program_is_refused(file: str, script: str) -> None:
    _make(file, script)
    with pytest.raises(LogDamagedError, match="is not an archive of distkv"):
        open_archive(file)


# -- damage -------------------------------------------------------------------------------------------------------


def _filled(file: str) -> None:
    archive = open_archive(file)
    archive.settle(Settlement(1, states=[StateRow(b"%06d" % number, bytes(100)) for number in range(2000)]))
    archive.close()


def _scribble(file: str) -> None:
    """Ruin all but the first few pages."""
    with open(file, "r+b") as content:
        size = content.seek(0, os.SEEK_END)
        content.seek(size // 4)
        content.write(b"\xa5" * (size - size // 4))


def _expect_one_line(error: BaseException) -> None:
    assert "\n" not in str(error)


def test_file_that_is_no_database_stops_the_start(file: str) -> None:
    Path(file).write_bytes(b"not a database".ljust(10_000, b"!"))
    with pytest.raises(LogDamagedError, match=r"state\.sqlite is damaged: .* Move .* aside and keep it") as caught:
        open_archive(file)
    _expect_one_line(caught.value)


def test_damaged_page_is_met_by_load(file: str) -> None:
    _filled(file)
    _scribble(file)
    archive = open_archive(file)
    with pytest.raises(LogDamagedError, match=r"state\.sqlite is damaged"):
        list(archive.load())
    archive.close()


def test_nothing_is_settled_while_a_table_cannot_be_read(file: str) -> None:
    _filled(file)
    _scribble(file)
    archive = open_archive(file)
    for _ in range(2):
        with pytest.raises(BusyError, match="distkv client scrub"):
            archive.settle(Settlement(2, states=[StateRow(b"%06d" % number, b"") for number in range(2000)]))
    assert DamagedRow.of_page("state") in archive.damage.all()
    assert all(damage.is_page for damage in archive.damage.all())
    assert archive.settled_lsn == 1
    archive.close()


def test_nothing_is_settled_after_damage_was_met_that_nothing_can_mend(file: str) -> None:
    """The list of free pages: all tables can be read, and none can grow."""
    _filled(file)
    with closing(open_archive(file)) as archive:
        archive.settle(Settlement(1, states=[StateRow(b"one", b"")], forget=True))
    with open(file, "r+b") as opened:
        opened.seek(32)
        first_free = int.from_bytes(opened.read(4), "big")
        assert first_free
        opened.seek((first_free - 1) * PAGE_BYTES)
        opened.write(b"\xff" * 8)
    archive = open_archive(file)
    with pytest.raises(LogDamagedError, match=r"state\.sqlite is damaged"):
        archive.settle(Settlement(2, states=[StateRow(b"%06d" % number, b"") for number in range(2000)]))
    with pytest.raises(StorageFailedError, match=r"state\.sqlite is damaged"):
        archive.settle(Settlement(2, meta={"k": b""}))
    assert archive.settled_lsn == 1
    archive.close()


# -- no space, no access ------------------------------------------------------------------------------------------


@pytest.fixture
def connection(file: str) -> Iterator[sqlite3.Connection]:
    with closing(connect_writer(file)) as connection:
        connection.execute("CREATE TABLE rows (content BLOB)")
        yield connection


def _insert(file: str, connection: sqlite3.Connection, sizes: list[tuple[int]]) -> None:
    with translated(file), transaction(connection):
        connection.executemany("INSERT INTO rows VALUES (zeroblob(?))", sizes)


def test_full_disk_undoes_the_transaction_and_the_next_one_may_succeed(
    file: str, connection: sqlite3.Connection
) -> None:
    connection.execute("PRAGMA max_page_count = 20")
    sizes = [(10,), (1_000_000,)]
    with pytest.raises(NoSpaceError, match="nothing was changed, and the log keeps") as caught:
        _insert(file, connection, sizes)
    _expect_one_line(caught.value)
    assert connection.execute("SELECT count(*) FROM rows").fetchone() == (0,)
    connection.execute("PRAGMA max_page_count = 2000")
    _insert(file, connection, sizes)
    assert connection.execute("SELECT length(content) FROM rows").fetchall() == sizes


def test_lock_of_another_program_is_busy(file: str, connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="end the other program"):
            _insert(file, connection, [(1,)])
    _insert(file, connection, [(2,)])
    assert connection.execute("SELECT length(content) FROM rows").fetchall() == [(2,)]


@pytest.mark.parametrize("missing", ["no/such/directory/state.sqlite", "."])
def test_file_that_cannot_be_made_stops_the_start(tmp_path: Path, missing: str) -> None:
    with pytest.raises(StorageFailedError, match="see to the disk"):
        open_archive(str(tmp_path / missing))


SETTLE_WITHIN_A_LIMIT = """
import resource, sys
from distkv.errors import StorageFailedError
from distkv.storage.archive import Settlement, open_archive
from distkv.storage.archive_copy import write_copy
from distkv.storage.archive_rows import StateRow
archive = open_archive(sys.argv[1])
archive.settle(Settlement(1, states=[StateRow(b"a", b"1")]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
large = Settlement(2, states=[StateRow(b"a", b"2"), StateRow(b"b", bytes(3 << 20))])
for batch in (large, Settlement(2)):
    try:
        archive.settle(batch)
    except StorageFailedError as error:
        print(error)
print(archive.settled_lsn, list(archive.load()))
"""


def test_failed_write_ends_settling_and_leaves_the_file_whole(file: str) -> None:
    # The system refuses to make a file longer than the limit: a write that fails for another reason than space.
    command = [sys.executable, "-c", SETTLE_WITHIN_A_LIMIT, file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True)
    first, second, left = done.stdout.splitlines()
    assert "the server must end" in first
    assert second == first
    assert left == "1 [StateRow(path=b'a', entry=b'1')]"
    archive = open_archive(file)
    assert (archive.settled_lsn, list(archive.load())) == (1, [StateRow(b"a", b"1")])
    archive.close()


def test_backup_to_a_place_that_is_not_there_is_refused(file: str, tmp_path: Path) -> None:
    archive = open_archive(file)
    with pytest.raises(RequestError, match=r"nowhere/copy: .* name a place that this server can write"):
        write_copy(file, str(tmp_path / "nowhere" / "copy"))
    archive.settle(Settlement(1))
    assert archive.settled_lsn == 1, "the archive itself is sound"
    archive.close()


def test_refused_opening_leaves_no_connection_behind(file: str) -> None:
    _make(file, "CREATE TABLE notes (text)")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(LogDamagedError):
            open_archive(file)
    assert len(os.listdir("/proc/self/fd")) == before


def test_backup_of_a_damaged_file_says_so_and_leaves_no_copy(file: str, tmp_path: Path) -> None:
    _filled(file)
    archive = open_archive(file)
    Path(file).write_bytes(Path(file).read_bytes()[:-PAGE_BYTES])
    with pytest.raises(LogDamagedError, match=r"state\.sqlite is damaged"):
        write_copy(file, str(tmp_path / "copy"))
    assert not [name for name in os.listdir(tmp_path) if "copy" in name]
    archive.close()
