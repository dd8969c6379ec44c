"""What services keep, in the archive: replaced, removed, damaged, left out of copies.

Knows: rows and checksums.  Does not know what a slot means.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from distkv.storage.archive import Archive, Settlement, open_archive
from distkv.storage.archive_copy import check_copy, write_copy
from distkv.storage.archive_rows import DamagedRow, LedgerRow, SlotRow, StateRow, check_slot
from distkv.storage.archive_scrub import parts

A, B, C = SlotRow("s", "a", b"1"), SlotRow("s", "b", b"2"), SlotRow("t", "a", b"3")


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "state.sqlite")


@pytest.fixture
def archive(file: str) -> Iterator[Archive]:
    with closing(open_archive(file)) as found:
        states, ledger = [StateRow(b"p", b"e")], [LedgerRow("n", 1, b"b")]
        found.settle(Settlement(1, states, ledger=ledger, meta={"k": b"v"}, slots=[A, B, C]))
        yield found


def behind_its_back(file: str, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


def test_slots_are_there_when_the_archive_is_opened_again(archive: Archive, file: str) -> None:
    archive.close()
    with closing(open_archive(file)) as again:
        assert again.slots() == [A, B, C]


def test_newest_value_of_a_key_replaces_those_before(archive: Archive) -> None:
    archive.settle(Settlement(2, slots=[SlotRow("s", "a", b"new")]))
    assert archive.slots() == [SlotRow("s", "a", b"new"), B, C]


def test_dropped_slot_is_gone_and_others_of_its_key_stay(archive: Archive) -> None:
    archive.settle(Settlement(2, dropped_slots=[("s", "a")]))
    assert archive.slots() == [B, C]


def test_settlement_that_forgets_voids_slots(archive: Archive) -> None:
    archive.settle(Settlement(2, forget=True, slots=[C]))
    assert archive.slots() == [C]


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE slots SET value = x'32' WHERE machine = 's' AND key = 'a'", "slots, s: a"),
        ("UPDATE slots SET machine = 'x' WHERE machine = 't'", "slots, x: a"),
        ("UPDATE slots SET key = 'x' WHERE machine = 't'", "slots, t: x"),
        ("DELETE FROM slots WHERE machine = 't'", "slots, rows that are missing"),
    ],
)
def test_damage_takes_all_slots_and_is_noted(archive: Archive, file: str, statement: str, place: str) -> None:
    archive.close()
    behind_its_back(file, statement)
    with closing(open_archive(file)) as again:
        assert again.slots() is None
        assert [*again.damage.all()] == [DamagedRow(place)]
        assert [*again.load()] == [StateRow(b"p", b"e")]
        assert [damage for part in parts(file) for damage in part.damaged] == [DamagedRow(place)]
        again.settle(Settlement(2, [StateRow(b"p", b"e")], forget=True, state_rows=1))
        assert again.slots() == []
        assert [damage for part in parts(file) for damage in part.damaged] == []


def test_machine_and_key_cannot_trade_characters() -> None:
    assert check_slot(SlotRow("ab", "c", b"")) != check_slot(SlotRow("a", "bc", b""))


def test_copy_has_no_slots_and_all_else(archive: Archive, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    write_copy(archive.path, copy)
    check_copy(copy)
    assert archive.slots() == [A, B, C]
    with closing(open_archive(copy)) as found:
        assert found.slots() == []
        assert [*found.load()] == [StateRow(b"p", b"e")]
        assert (found.ledger(), found.meta(), found.settled_lsn) == ([LedgerRow("n", 1, b"b")], {"k": b"v"}, 1)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("copy")) == ["copy"]
