"""`distkv sim` from its words to the exit code.

Knows: what a user types and sees.  Does not look into runs: tests/unit/sim does.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distkv.cli.main import run
from distkv.core.update import Store
from distkv.sim import cost
from distkv.sim.activity import cost as activity_cost
from distkv.sim.cost import FIGURES
from distkv.sim.grammar import parse_script
from distkv.sim.player import ScriptFailedError, play
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules.ledger import LedgerPartition
from tests.seeds import KILLS

Capture = pytest.CaptureFixture[str]
OF_SEEDS = "--first-seed, --tokens, --topics, --accounts, --activity and --jobs belong to --seeds"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "give one of --seeds, --seed and --fleet"),
        (["--seed", "1", "--seeds", "2"], "give one of --seeds, --seed and --fleet"),
        (["--seed", "1", "--fleet", "4"], "give one of --seeds, --seed and --fleet"),
        (["--fleet", "4", "--without", "loss"], "a fleet goes one fixed course"),
        (["--fleet", "1"], "1 is not in the range"),
        (["--seeds", "2", "--digest"], "belong to a single --seed"),
        (["--seed", "1", "--without", "rain"], "'rain' is no fault; there are loss, duplication"),
        (["--seed", "1", "--only", "3-x"], "'3-x' is neither a number nor a range such as 7-9"),
        (["--seed", "1", "--only", "9-3"], "'9-3' is neither a number nor a range such as 7-9"),
        (["--seed", "1", "--only", "3", "--only", "4"], "--only stands here 2 times: give it once"),
        (["--seed", "1", "--seed", "2"], "--seed stands here 2 times: give it once"),
        (["--seed", "1", "--first-seed", "0"], OF_SEEDS),
        (["--seed", "1", "--tokens"], OF_SEEDS),
        (["--fleet", "4", "--jobs", "2"], OF_SEEDS),
        (["--seed", "1", "--trace", "-o", "json"], "take 'distkv graph --seed 1 -o json'"),
        (["--seeds", "1000000", "-o", "raw"], "use -o json"),
    ],
)
def test_wrong_words_are_one_line_and_exit_2(words: list[str], why: str, capsys: Capture) -> None:
    assert run(["sim", *words]) == 2
    complaint = capsys.readouterr().err
    assert why in complaint
    assert complaint.count("\n") == 1


def test_closed_stdout_is_told_before_anything_is_run(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert run(["sim", "--seeds", "1000000"]) == 1
    assert capsys.readouterr().err == "distkv: output: standard output is closed\n"


def test_seed_that_passes_exits_0_and_its_last_line_is_the_digest(capsys: Capture) -> None:
    assert run(["sim", "--seed", "3", "--digest"]) == 0
    *_, line, digest = capsys.readouterr().out.splitlines()
    assert line.startswith("seed 3 passed")
    assert len(bytes.fromhex(digest)) == 16


@pytest.mark.slow
def test_seed_that_fails_exits_1_with_what_is_enough_and_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(Store, "replay", lambda _store, _record: [])  # starts forget what the log says
    assert run(["sim", "--seed", str(KILLS)]) == 1
    out = capsys.readouterr().out
    _, _, file = out.partition("this scenario file is enough to make it fail:\n\n")
    with pytest.raises(ScriptFailedError, match="disks keep what they said they have"):
        play(parse_script(file.partition("\ngraph: ")[0], "t.txt"))
    again = out.splitlines()[-1].removeprefix("again: distkv ").split()
    assert run([*again, "-o", "json"]) == 1


def test_seed_that_fails_without_any_action_exits_1_with_a_command_that_takes_none(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(*_: object) -> None:
        raise BrokenRuleError("a rule", "always")

    monkeypatch.setattr(LedgerPartition, "stepped", fail)
    assert run(["sim", "--seed", "3"]) == 1
    again = capsys.readouterr().out.splitlines()[-1].removeprefix("again: distkv ").split()
    assert again[-2:] == ["--only", "none"]
    assert run([*again, "-o", "json"]) == 1


@pytest.mark.slow
def test_seed_that_fails_comes_with_a_command_that_draws_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    monkeypatch.setattr(Store, "replay", lambda _store, _record: [])
    monkeypatch.setattr("distkv.sim.shrink.RUNS_MAX", 3)  # how far a seed is cut down is another test's
    monkeypatch.chdir(tmp_path)
    run(["sim", "--seed", str(KILLS)])
    graph = capsys.readouterr().out.splitlines()[-2].removeprefix("graph: distkv ").split()
    assert run(graph) == 1  # it failed again
    assert f"seed {KILLS} failed" in capsys.readouterr().err
    assert (tmp_path / f"seed-{KILLS}.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.slow
def test_many_seeds_end_with_a_table_and_its_holes(capsys: Capture) -> None:
    assert run(["sim", "--first-seed", "3", "--seeds", "2"]) == 0
    out = capsys.readouterr().out
    assert "PING-1      a ping " in out
    assert "seeds 3 to 4: 2 passed" in out
    assert out.splitlines()[-1].startswith("rules that no seed reached: ")
    assert "foreign_network" in out.splitlines()[-1]


@pytest.mark.slow
def test_seeds_with_tokens_are_counted_alone(capsys: Capture) -> None:
    assert run(["sim", "--first-seed", "3", "--seeds", "1", "--tokens"]) == 0
    assert "1 seeds with tokens, from 11 to 11: 1 passed" in capsys.readouterr().out


def test_many_seeds_as_json_are_one_document(capsys: Capture) -> None:
    assert run(["sim", "--first-seed", "3", "--seeds", "1", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdicts"] == {"passed": 1}
    assert "foreign_network" in found["holes"]


def test_seeds_of_which_none_passes_exit_1(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("distkv.sim.run.DELIVERIES_MIN", 10**9)
    assert run(["sim", "--first-seed", "3", "--seeds", "1"]) == 1
    assert "rejected, because too little happened: 3" in capsys.readouterr().out


def test_all_seeds_that_fail_are_named(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def fail(*_: object) -> None:
        raise BrokenRuleError("a rule", "always")

    monkeypatch.setattr(LedgerPartition, "stepped", fail)
    monkeypatch.setattr("distkv.cli.sim.SHOWN_MAX", 1)
    assert run(["sim", "--first-seed", "3", "--seeds", "3"]) == 1
    out, errors = capsys.readouterr()
    assert [line.split(":")[0] for line in errors.splitlines()[:3]] == [f"seed {n} failed" for n in (3, 4, 5)]
    assert "  again: distkv sim --seed 3\nmore failed: 4, 5\n" in out


def test_trace_prints_every_step(capsys: Capture) -> None:
    assert run(["sim", "--seed", "3", "--only", "0-20", "--trace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("0 n0 begin -> ")
    assert len(lines) > 100


def test_fleets_are_printed_as_a_table_that_the_docs_can_hold(capsys: Capture) -> None:
    assert run(["sim", "--fleet", "3", "--fleet", "2"]) == 0
    rule, head, *rows, end = capsys.readouterr().out.splitlines()
    assert head.split() == ["nodes", "3", "2"]
    assert rule == rows.pop(0) == end
    assert [row[: len(rule.split()[0])].rstrip() for row in rows] == list(FIGURES.values())


def test_fleets_as_json_are_maps_of_figures(capsys: Capture) -> None:
    assert run(["sim", "--fleet", "2", "-o", "json"]) == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert list(figures) == ["nodes", *FIGURES]


def test_fleet_with_activity_is_a_table_of_what_that_costs(capsys: Capture) -> None:
    assert run(["sim", "--fleet", "3", "--activity", "-o", "json"]) == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert list(figures) == ["nodes", *activity_cost.FIGURES]
    assert (figures["frames_max"], figures["confirmations_max"], figures["depth"]) == (1, 2, 2)


def test_service_of_which_nothing_is_measured_is_refused(capsys: Capture) -> None:
    assert run(["sim", "--fleet", "3", "--topics"]) == 2
    assert "nothing is measured of --fleet with --topics; there is --activity" in capsys.readouterr().err


def test_fleet_that_does_not_agree_exits_1(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(cost, "PATIENCE_MS", -1)
    assert run(["sim", "--fleet", "2"]) == 1
    assert "the fleet of 2 does not agree: all nodes end alike" in capsys.readouterr().err
