"""What a run that failed says at its end: enough to see what is wrong, in few lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from testing.steps import Step, step, waiting
from testing.whole import END_LINES, WIDTH, Failure, end, run_stages, stages


def _failures(count: int) -> list[Failure]:
    lines = [f"line {line}" for line in range(40)]
    return [Failure(f"test_a.py::test_{number}", lines) for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 7, 20, 21, 500])
def test_end_has_no_more_lines_than_it_promises(count: int) -> None:
    assert len(list(end(_failures(count)))) <= END_LINES


@pytest.mark.parametrize("count", [1, 7, 20])
def test_every_failure_is_named_below_its_number(count: int) -> None:
    lines = list(end(_failures(count)))
    assert lines[-count - 1 :] == [f"FAILED: {count}", *(f"    {one.name}" for one in _failures(count))]


def test_failures_without_room_are_counted() -> None:
    assert list(end(_failures(500)))[-1] == "    and 480 more, see above"


@pytest.mark.parametrize("count", [1, 2, 7])
def test_last_line_of_each_failure_is_shown(count: int) -> None:
    assert list(end(_failures(count))).count("line 39") == count


def test_long_line_is_cut() -> None:
    lines = list(end([Failure("t" * 999, ["x" * 999])]))
    assert max(map(len, lines)) == WIDTH


def test_command_that_fails_without_a_word_of_tests_is_a_failure_with_its_last_lines() -> None:
    lost = step(sys.executable, "-c", "print('first'); print('all is lost'); raise SystemExit(3)")
    well = step(sys.executable, "-c", "print('well')")
    failures, costs = run_stages([[("lint", lost)], [("lint", well)]])
    assert [(one.name, list(one.last)) for one in failures] == [(f"{lost.text} ended with 3", ["first", "all is lost"])]
    assert [one.step for one in costs] == [lost.text, well.text]


def test_program_that_is_not_there_is_a_failure() -> None:
    failures, _ = run_stages([[("lint", step("no-such-program-of-ours"))]])
    assert "no-such-program-of-ours" in failures[0].name


def test_what_waits_runs_at_once_where_the_first_of_it_stands() -> None:
    first, alone, second, last = waiting("a"), step("b"), waiting("c"), step("d")
    steps = [("lint", last), ("process", first), ("process", alone), ("netns", second), ("spark", last)]
    assert list(stages(steps)) == [
        [("lint", last)],
        [("process", first), ("netns", second)],
        [("process", alone)],
        [("spark", last)],
    ]


def test_commands_of_a_stage_run_at_once_and_what_they_print_is_not_mixed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def meeting(own: str, other: str) -> Step:
        """It ends when the other one has begun."""
        words = (
            "import pathlib, sys, time; own, other = map(pathlib.Path, sys.argv[1:])\n"
            "print('one', own.name); own.touch()\n"
            "while not other.exists(): time.sleep(0.01)\n"
            "print('two', own.name)"
        )
        return waiting(sys.executable, "-uc", words, str(tmp_path / own), str(tmp_path / other))

    failures, costs = run_stages([[("process", meeting("a", "b")), ("netns", meeting("b", "a"))]])
    assert not failures
    assert [cost.part for cost in costs] == ["process", "netns"]
    said = [line for line in capfd.readouterr().out.splitlines() if line.startswith(("one", "two"))]
    assert said == ["one a", "two a", "one b", "two b"]


def test_what_fails_beside_another_command_is_told() -> None:
    lost = waiting(sys.executable, "-c", "print('all is lost'); raise SystemExit(3)")
    failures, _ = run_stages([[("process", waiting(sys.executable, "-c", "")), ("netns", lost)]])
    assert [list(one.last) for one in failures] == [["all is lost"]]
