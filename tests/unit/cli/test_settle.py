"""`distkv pipeline settle`: a person decides about gaps, which needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distkv.cli.main import run
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, without
from distkv.spark.table.manifest import Manifest
from distkv.spark.table.store import open_table

GAPS: TickRanges = {NodeName("a"): Ranges([(1, 3)]), NodeName("b"): Ranges([(5, 9)])}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A table that has nothing but gaps."""
    with open_table(tmp_path / "t", network=bytes(8), create=True) as table:
        table.commit(ticks={}, gaps=GAPS)
    return str(tmp_path / "t")


def manifest(folder: str) -> Manifest:
    with open_table(folder, network=None) as table:
        return table.manifest


def test_settled_gaps_are_written_down_with_who_and_why(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "settle", folder, "--who", "ada", "--why", "the disk of a burned", "--node", "a"]) == 0
    assert capsys.readouterr().out == "2 gaps settled (a [[1, 3]]); 2 of 6 gaps are settled now\n"
    found = manifest(folder)
    (one,) = found.settled
    assert (one.who, one.why, one.ticks, found.gaps) == ("ada", "the disk of a burned", {"a": Ranges([(1, 3)])}, GAPS)
    assert one.time > 1e9


def test_second_decision_is_about_what_is_left(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--node", "a"], [], []):
        assert run(["pipeline", "settle", folder, "--why", "gone", *words, "-o", "json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["settled"] for one in told] == [2, 4, 0]
    assert [one.ticks for one in manifest(folder).settled] == [{"a": Ranges([(1, 3)])}, {"b": Ranges([(5, 9)])}]


def test_gap_that_comes_later_is_not_settled(folder: str) -> None:
    assert run(["pipeline", "settle", folder, "--why", "gone"]) == 0
    more: TickRanges = {NodeName("b"): Ranges([(5, 11)])}
    with open_table(folder, network=None) as table:
        table.commit(ticks={}, gaps=more)
    found = manifest(folder)
    assert without(found.gaps, found.settled_gaps) == {"b": Ranges([(9, 11)])}


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ([], 2, "--why"),
        (["--why", ""], 2, "--why is '': write a line of text"),
        (["--why", "a\nb"], 2, "write a line of text"),
        (["--why", "gone", "--who", "\x1b[2J"], 2, "--who is '\\x1b[2J': write a line of text"),
        (["--why", "gone", "--node", "c"], 1, "'c' has no gaps in this table; these have some: a, b"),
    ],
    ids=["no-why", "empty", "lines", "control", "node"],
)
def test_what_is_no_decision_is_refused_and_changes_nothing(
    folder: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, complaint: str
) -> None:
    assert run(["pipeline", "settle", folder, *words]) == code
    assert complaint in capsys.readouterr().err
    assert manifest(folder).settled == ()
