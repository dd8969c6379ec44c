"""A settlement is whole or absent, wherever the server or the power ends it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.storage.archive import Archive, Settlement, open_archive
from distkv.storage.archive_rows import DataRow, HistoryRow, LedgerRow, StateRow

ROOT = Path(__file__).parents[3]
NAME = "state.sqlite"


def _batch(number: int, records: int = 20) -> Settlement:
    """The batch that ends at record `records * (number + 1)`; every row of it says which one it is."""
    begin, end = records * number, records * (number + 1)
    return Settlement(
        lsn=end,
        states=[StateRow(b"%d" % path, b"%d" % number * 50) for path in range(10)]
        + [StateRow(b"only %d" % number, b"")],
        dropped_paths=[b"only %d" % (number - 1)],
        history=[HistoryRow(lsn, b"p", "n", lsn, 0.0, b"%d" % lsn * 20, True) for lsn in range(begin, end)],
        ledger=[LedgerRow("n", 0, b"%d" % end)],
        meta={"end": b"%d" % end},
        data={("s", f"only {number}"): b"%d" % number, ("s", "last"): b"%d" % end, ("s", f"only {number - 1}"): None},
    )


def _settled(archive: Archive, records: int = 20) -> int:
    """How many batches are there; fails unless each of them is whole, and nothing else is there."""
    count, rest = divmod(archive.settled_lsn, records)
    assert rest == 0
    entries = {row.path: row.entry for row in archive.load()}
    lsns = [row.lsn for row in archive.past.of_path(b"p", 1_000_000)]
    assert lsns == list(range(archive.settled_lsn))[::-1]
    assert archive.sizes().history_rows == len(lsns)
    if count:
        last = b"%d" % (count - 1)
        assert entries == {b"%d" % path: last * 50 for path in range(10)} | {b"only " + last: b""}
        end = b"%d" % (records * count)
        rows = [DataRow("s", "last", end), DataRow("s", f"only {count - 1}", last)]
        assert ([*archive.data()], archive.lost_data) == (rows, [])
        assert (archive.ledger(), archive.meta()) == ([LedgerRow("n", 0, end)], {"end": end})
    else:
        assert (entries, archive.ledger(), archive.meta()) == ({}, [], {})
    return count


def _copied(source: Path, target: Path, wal_bytes: int | None = None) -> Archive:
    """What a server would open after a power failure now, of whose WAL so much reached the disk."""
    target.mkdir()
    shutil.copy(source / NAME, target / NAME)
    wal = (source / f"{NAME}-wal").read_bytes()
    (target / f"{NAME}-wal").write_bytes(wal[:wal_bytes])
    return open_archive(str(target / NAME))


def test_power_loss_in_the_middle_of_a_settlement_leaves_nothing_of_it(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    archive = open_archive(str(live / NAME))
    archive.settle(_batch(0))
    found: list[int] = []

    class Watched(list[LedgerRow]):
        """Rows that copy the files when they are about to be written, after all states and history."""

        def __iter__(self) -> Iterator[LedgerRow]:
            copy = _copied(live, tmp_path / f"copy {len(found)}")
            found.append(_settled(copy))
            copy.close()
            return super().__iter__()

    # So many states that they do not wait in memory for the commit: uncommitted pages stand in the WAL.
    states = [StateRow(b"%d" % path, bytes(1000)) for path in range(20_000)]
    archive.settle(Settlement(40, states, (), _batch(1).history, Watched(_batch(1).ledger)))
    assert (live / f"{NAME}-wal").stat().st_size > 20_000_000
    assert found == [1]
    archive.close()


def test_wal_cut_anywhere_leaves_whole_batches(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    archive = open_archive(str(live / NAME))
    for number in range(4):
        archive.settle(_batch(number))
    size = (live / f"{NAME}-wal").stat().st_size
    counts = []
    for step in range(61):
        copy = _copied(live, tmp_path / f"copy {step}", size * step // 60)
        counts.append(_settled(copy))
        copy.close()
    archive.close()
    assert counts == sorted(counts)
    assert set(counts) >= {1, 2, 3, 4}
    assert counts[-1] == 4


def test_acknowledged_settlements_survive_a_power_loss_after_any_of_them(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    archive = open_archive(str(live / NAME))
    for number in range(12):
        archive.settle(_batch(number))
        copy = _copied(live, tmp_path / f"copy {number}")
        assert _settled(copy) == number + 1
        copy.close()
    archive.close()


SETTLE_FOR_EVER = """
import sys
from itertools import count
from distkv.storage.archive import open_archive
from tests.unit.storage.test_archive_crash import _batch
from distkv.storage.archive_copy import write_copy
archive = open_archive(sys.argv[1])
for number in count(archive.settled_lsn // 20):
    archive.settle(_batch(number))
    print(number + 1, flush=True)
    if number % 7 == 0:
        write_copy(archive.path, f"{sys.argv[1]}.{number}.copy")
"""


@pytest.mark.slow
def test_killed_settler_leaves_every_acknowledged_batch_and_at_most_one_more(tmp_path: Path) -> None:
    path = tmp_path / NAME
    acknowledged = 0
    for lines in (1, 3, 7, 40, 90):
        process = subprocess.Popen(
            [sys.executable, "-c", SETTLE_FOR_EVER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            for _ in range(lines):
                acknowledged = int(process.stdout.readline())
        finally:
            process.kill()
            rest, _ = process.communicate()
        acknowledged = int(rest.split()[-1]) if rest.split() else acknowledged
        archive = open_archive(str(path))
        assert _settled(archive) in (acknowledged, acknowledged + 1)
        archive.close()
    copies = [copy for copy in tmp_path.glob("*.copy") if not copy.name.endswith(".part")]
    assert copies
    for copy in copies:
        archive = open_archive(str(copy))
        assert _settled(archive) == int(copy.suffixes[-2][1:]) + 1
        archive.close()
