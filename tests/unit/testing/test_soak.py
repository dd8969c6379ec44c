"""A soak: what it asks for, what it writes down, what it prints in the end; one real slice of it."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from testing.kinds import KINDS, Draws, Kind, Slice
from testing.record import Failure, load
from testing.soak import Wish, WishError, lines_of_failures, lines_of_record, main, possible, read_wish, soak
from testing.steps import Step, step

from tests.unit.testing.rows import ROW, row


def test_all_kinds_take_turns_for_two_hours() -> None:
    wish = read_wish({})
    assert wish == read_wish({"HOURS": "2", "ONLY": ""})
    assert (wish.hours, [kind.name for kind in wish.kinds]) == (2, [*KINDS])


def test_some_kinds_can_be_named() -> None:
    wish = read_wish({"HOURS": "0.05", "ONLY": "tokens, sim,tokens"})
    assert (wish.hours, [kind.name for kind in wish.kinds]) == (0.05, ["tokens", "sim"])


@pytest.mark.parametrize(
    "variables",
    [{"HOURS": hours} for hours in ("", "x", "0", "-1", "inf", "nan", "2h")] + [{"ONLY": "sim,such"}, {"ONLY": "all"}],
)
def test_wrong_wish_changes_nothing_and_is_told_in_a_line(
    variables: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(variables, tmp_path / "record.jsonl") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_record_that_cannot_be_read_is_told_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text("{\n", "utf-8")
    assert main({"ONLY": "sim"}, path) == 2
    assert path.read_text("utf-8") == "{\n"
    said = capsys.readouterr()
    assert said.out == ""
    assert (said.err.count("\n"), "line 1 cannot be read" in said.err) == (1, True)


def test_what_cannot_be_run_here_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    gone = attrs.evolve(KINDS["sim"], name="gone", why_not=lambda: "it is gone")
    wish = attrs.evolve(read_wish({}), kinds=(gone, KINDS["tokens"]))
    assert [kind.name for kind in possible(wish).kinds] == ["tokens"]
    assert "gone: it is gone" in capsys.readouterr().out
    with pytest.raises(WishError, match="gone: it is gone"):
        possible(attrs.evolve(wish, kinds=(gone,)))


# -- in the end


def test_table_has_the_sums_of_each_kind() -> None:
    failed = (Failure("seed 7", "distkv sim --seed 7"),)
    late = row(began="2026-01-03T00:00:00Z", wall_s=3500.0, is_finished=False, count=0, failed=failed)
    rows = [ROW, late, row(kind="tokens"), row(kind="of-old")]
    cells = [line.split() for line in lines_of_record(rows)]
    assert ["sim", "2", "1", "50", "seeds", "1.00", "1", "2026-01-03"] in cells
    assert ["of-old", "1", "0", "50", "0.03", "0", "2026-01-01"] in cells


def test_failures_of_this_soak_are_listed_with_their_commands() -> None:
    lines = [*lines_of_failures([ROW, row(failed=(Failure("seed 7 failed", "distkv sim --seed 7"),))])]
    assert lines == ["", "failed: 1", "  sim: seed 7 failed", "  again: distkv sim --seed 7"]
    assert [*lines_of_failures([ROW])] == ["", "nothing failed in 1 slices"]


# -- slices

FAILS = """
print("seed 7 failed: all is lost")
print("  again: distkv sim --seed 7")
raise SystemExit(1)
"""


INTERRUPTS = """
import os, signal, sys
if sys.argv[1] != "0":
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()
"""
"""The second slice."""


def _kind(code: str) -> Kind:
    def command(one: Slice) -> Step:
        return step(sys.executable, "-c", code, str(one.first), str(one.size))

    return Kind("quick", "seeds", command, each_s=60.0, most=5, draws=Draws.EACH)


def _soak(path: Path, code: str, hours: float = 1) -> int:
    return soak(Wish(hours, (_kind(code),)), path)


def test_soak_of_a_short_time_runs_one_slice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.jsonl"
    assert main({"HOURS": "0.000001", "ONLY": "mutants"}, path) == 0
    (found,) = load(path)
    assert (found.kind, found.count, found.is_finished, found.failed) == ("mutants", 1, True, ())
    assert min(found.wall_s, found.cpu_s) > 0
    assert next(iter(found.items)) in capsys.readouterr().out


def test_next_soak_goes_on_behind_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    for _ in range(2):
        assert _soak(path, "pass", 1e-9) == 0
    assert [(one.first, one.after) for one in load(path)] == [(0, 1), (1, 2)]


def test_kind_that_fails_at_once_has_no_more_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testing.soak.AT_ONCE_S", math.inf)  # on a busy machine nothing is at once
    path = tmp_path / "record.jsonl"
    assert _soak(path, "raise SystemExit(1)") == 1
    (found,) = load(path)
    assert [one.what for one in found.failed] == ["ended with 1: "]
    assert "-- quick: fails at once" in capsys.readouterr().out


def test_what_fails_is_kept_and_printed_with_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.jsonl"
    assert _soak(path, FAILS, 1e-9) == 1
    assert load(path)[0].failed == (Failure("seed 7 failed: all is lost", "distkv sim --seed 7"),)
    assert capsys.readouterr().out.endswith("  quick: seed 7 failed: all is lost\n  again: distkv sim --seed 7\n")


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """As in a process of its own; those of pytest-xdist may not heed it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
def test_interrupted_soak_keeps_its_slice_as_unfinished_and_prints_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.jsonl"
    assert _soak(path, INTERRUPTS) == 0
    passed, found = load(path)
    assert (passed.is_finished, passed.first, passed.count) == (True, 0, 3)
    assert (found.is_finished, found.first, found.count, found.failed) == (False, 3, 0, ())
    assert ["quick", "2", "1", "3"] in [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
