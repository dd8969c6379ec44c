"""The record of what was ever run: rows are added, and a line that cannot be read is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from testing.record import RECORD, Failure, RecordError, alone, append, load

from tests.unit.testing.rows import ROW, row


def test_rows_are_read_as_they_were_added(tmp_path: Path) -> None:
    path = tmp_path / "soak" / "record.jsonl"
    rows = [ROW, row(items={"a": 1.5, "b": 0}, failed=(Failure("seed 7", "distkv sim --seed 7"),), is_finished=False)]
    for one in rows:
        append(one, path)
    assert load(path) == rows


def test_record_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert load(tmp_path / "record.jsonl") == []


def test_record_of_this_repository_is_read() -> None:
    assert len(load(RECORD)) == len(RECORD.read_bytes().splitlines())


def _line(**changes: Any) -> str:
    return json.dumps({**attrs.asdict(ROW), **changes})


@pytest.mark.parametrize(
    "line",
    [
        "", "{", "[]", "7", "<<<<<<< HEAD", _line(first="100"), _line(failed=[{"what": "x"}]), _line(failed=7),
        _line(items=["a"]), _line(items={"a": "7"}), _line(more=1), '{"kind": "sim"}', _line(is_finished=None), "\xff",
    ],
)  # fmt: skip
def test_line_that_cannot_be_read_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "record.jsonl"
    path.write_bytes(f"{_line()}\n{line}\n{_line()}\n".encode("latin-1"))
    with pytest.raises(RecordError, match=r"^\S+\.jsonl: line 2 cannot be read \([^\n]+\): correct it[^\n]+$"):
        load(path)


def test_second_soak_is_refused_until_the_first_one_ends(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    with alone(path), pytest.raises(RecordError, match="another soak"), alone(path):
        pass
    with alone(path):
        pass
    assert not path.exists()
