"""`distkv graph` from its words to the exit code.

Knows: what a user types and sees.  Does not look into pictures: tests/unit/graph does.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from distkv.cli.main import run
from distkv.core.update import Store
from distkv.graph.trace import write_line
from distkv.sim.actions import CutWay, Deed, Split, ToNode
from distkv.sim.draft import draw
from tests.seeds import KILLS
from tests.unit.graph.traces import heard, there, write

Capture = pytest.CaptureFixture[str]

SENT = write("a", 1)
TRACE = [there("a"), there("b"), SENT, heard("b", SENT)]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    file = tmp_path / "run.trace"
    file.write_text("".join(f"{write_line(moment)}\n" for moment in TRACE))
    return str(file)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "give one of --live, --trace, --scenario and --seed"),
        (["--seed", "1", "--trace", "x"], "give one of --live, --trace, --scenario and --seed"),
        (["--scenario", __file__], "test_graph.py, line 1: "),
        (["--trace", "x", "--only", "3"], "--only and --without belong to --seed"),
        (["--seed", "1", "--for", "2"], "--for belongs to --live"),
        (["--seed", "1", "--from", "nan"], "nan is no time"),
        (["--live", ""], "the host is empty"),
        (["--seed", "1", "-o", "yaml"], "'yaml' is not one of"),
        (["--seed", "1", "--last", "0"], "0 is not in the range"),
        (["--seed", "1", "--last", "3"], "--last is for pictures"),
        (["--live", "h:1", "--for", "nan"], "nan is no time"),
        (["--seed", "1", "--from", "5", "--to", "3"], "--from 5 is after --to 3"),
        (["--seed", "1", "--only", "9-7"], "'9-7' is neither a number nor a range such as 7-9"),
        (["--seed", "1", "--only", "1" * 5000], "is neither a number nor a range such as 7-9"),
        (["--seed", "1", "--seed", "2"], "--seed stands here 2 times: give it once"),
        (["--trace", "x", "--trace", "y"], "--trace stands here 2 times: give it once"),
        (["--scenario", "x", "--scenario", "y"], "--scenario stands here 2 times: give it once"),
    ],
)
def test_wrong_words_are_one_line_and_exit_2(words: list[str], why: str, capsys: Capture) -> None:
    assert run(["graph", *words]) == 2
    complaint = capsys.readouterr().err
    assert why in complaint
    assert complaint.count("\n") == 1


def test_form_that_only_other_commands_know_is_refused(trace: str, capsys: Capture) -> None:
    assert run(["-o", "yaml", "graph", "--trace", trace]) == 2
    assert "a graph is written as text, json, mermaid, svg, html" in capsys.readouterr().err


def test_text_is_a_line_for_each_moment(trace: str, capsys: Capture) -> None:
    assert run(["graph", "--trace", trace]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(TRACE)
    assert lines[2] == "    0.010 a writes a:1 k = 1"


def test_json_is_the_trace_itself(trace: str, capsys: Capture) -> None:
    assert run(["graph", "--trace", trace, "-o", "json"]) == 0
    assert capsys.readouterr().out == Path(trace).read_text()


def test_trace_is_read_from_stdin(trace: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(Path(trace).read_text()))
    assert run(["graph", "--trace", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(TRACE)


@pytest.mark.parametrize(
    ("form", "begin"), [("mermaid", "sequenceDiagram\n"), ("svg", "<svg "), ("html", "<!DOCTYPE html>\n")]
)
def test_picture_goes_to_stdout_or_into_a_file(
    form: str, begin: str, trace: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "out"
    assert run(["graph", "--trace", trace, "-o", form]) == 0
    shown = capsys.readouterr().out
    assert run(["graph", "--trace", trace, "-o", form, "--out", str(file)]) == 0
    assert capsys.readouterr().out == ""
    assert shown.startswith(begin)
    assert file.read_text(encoding="utf-8") == shown


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--nodes", "a"], 2),
        (["--nodes", "a,b"], 4),
        (["--nodes", "a", "--nodes", "b"], 4),
        (["--kinds", "set"], 1),
        (["--kinds", "update"], 2),
        (["--from", "0.01", "--to", "0.015"], 1),
    ],
)
def test_only_what_is_wanted_is_shown(words: list[str], count: int, trace: str, capsys: Capture) -> None:
    assert run(["graph", "--trace", trace, *words]) == 0
    assert len(capsys.readouterr().out.splitlines()) == count


@pytest.mark.parametrize("form", ["text", "svg"])
def test_node_that_is_not_there_is_refused_with_those_that_are(form: str, trace: str, capsys: Capture) -> None:
    assert run(["graph", "--trace", trace, "--nodes", "z", "-o", form]) == 2
    assert "there is no node 'z' in the trace: there are a, b" in capsys.readouterr().err


def test_last_says_how_many_moments_a_picture_has(trace: str, capsys: Capture) -> None:
    assert run(["graph", "--trace", trace, "-o", "svg", "--last", "1"]) == 0
    out = capsys.readouterr().out
    assert "3 moments before these are left out." in out
    assert len(ElementTree.fromstring(out).findall("{http://www.w3.org/2000/svg}circle")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "{}", "nonsense", '{"at_ms": 1}', "\x00", '{"at_ms":0,"node":"a","kind":7}', "[" * 100_000, "9" * 5000,
        '{"at_ms":1e3,"node":"a","kind":"set"}', '{"at_ms":9999999999999999999,"node":"a","kind":"set"}',
    ],
)  # fmt: skip
def test_file_that_is_no_trace_is_refused_with_its_line(line: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "t"
    file.write_text(f"{write_line(TRACE[0])}\n{line}\n")
    assert run(["graph", "--trace", str(file), "-o", "svg"]) == 1
    said = capsys.readouterr()
    assert "line 2 is no moment of a trace" in said.err
    assert said.out == ""


@pytest.mark.parametrize("form", ["text", "json", "mermaid", "svg", "html"])
def test_halves_of_characters_are_written_as_question_marks(form: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "t"
    file.write_text('{"at_ms":0,"node":"a","kind":"wake","notes":["\\ud800"]}\n')
    assert run(["graph", "--trace", str(file), "-o", form]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("before", [None, "what I had"])
def test_file_stays_as_it_was_when_there_is_nothing_to_draw(before: str | None, tmp_path: Path) -> None:
    file, out = tmp_path / "t", tmp_path / "out.svg"
    file.write_text("nonsense")
    if before is not None:
        out.write_text(before)
    assert run(["graph", "--trace", str(file), "-o", "svg", "--out", str(out)]) == 1
    assert (out.read_text() if out.exists() else None) == before


@pytest.mark.parametrize("form", ["text", "svg"])
@pytest.mark.parametrize(("words", "why"), [([], "the trace has no moments"), (["--from", "99"], "no moment is what ")])
def test_nothing_to_draw_is_told_and_no_file_is_made(
    words: list[str], why: str, form: str, trace: str, tmp_path: Path, capsys: Capture
) -> None:
    file, out = tmp_path / "empty", tmp_path / "out"
    file.write_text("")
    source = trace if words else str(file)
    assert run(["graph", "--trace", source, *words, "-o", form, "--out", str(out)]) == 1
    assert capsys.readouterr().err.startswith(f"distkv: there is nothing to draw: {why}")
    assert not out.exists()


@pytest.mark.parametrize("form", ["text", "html"])
def test_full_disk_is_told_with_the_name_of_the_file(form: str, trace: str, capsys: Capture) -> None:
    assert run(["graph", "--trace", trace, "-o", form, "--out", "/dev/full"]) == 1
    assert capsys.readouterr().err == "distkv: /dev/full: No space left on device\n"


def test_device_is_written_to_as_a_file_is(trace: str) -> None:
    assert run(["graph", "--trace", trace, "--out", "/dev/null"]) == 0


def test_closed_stdin_and_stdout_are_told(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run(["graph", "--trace", "-"]) == 2
    assert capsys.readouterr().err == "distkv: standard input is closed: there is no trace to read\n"
    monkeypatch.setattr("sys.stdout", None)
    assert run(["graph", "--trace", trace]) == 1
    assert capsys.readouterr().err == "distkv: output: standard output is closed\n"


def test_file_that_cannot_be_written_is_told_before_anything_is_done(capsys: Capture) -> None:
    assert run(["graph", "--seed", "3", "--out", "/nowhere/x"]) == 1
    assert capsys.readouterr().err == "distkv: /nowhere/x: No such file or directory\n"


def test_what_a_bad_file_holds_does_not_steer_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "odd.txt"
    file.write_text("\x1b[2Jset\x07 a\n----\n")
    assert run(["graph", "--scenario", str(file)]) == 2
    assert r"odd.txt, line 1: \x1b[2Jset\x07 is no verb" in capsys.readouterr().err


def test_file_that_is_not_there_is_one_line(capsys: Capture) -> None:
    assert run(["graph", "--trace", "/nowhere"]) == 1
    assert capsys.readouterr().err == "distkv: /nowhere: No such file or directory\n"


def test_seed_is_drawn_and_its_outcome_told_beside(capsys: Capture) -> None:
    assert run(["graph", "--seed", "3", "--only", "0-20", "-o", "json"]) == 0
    said = capsys.readouterr()
    kinds = {json.loads(line)["kind"] for line in said.out.splitlines()}
    assert {"started", "ping", "update", "set"} <= kinds
    assert said.err.startswith("distkv: seed 3 ")


def test_graph_of_a_seed_shows_what_was_done_to_hosts_and_network(capsys: Capture) -> None:
    pauses = [ToNode(f"n{number}", Deed.PAUSE) for number in range(5)]
    planned = enumerate(one.action for one in draw(3).planned)
    wanted = ",".join(str(n) for n, action in planned if isinstance(action, Split | CutWay) or action in pauses)
    assert run(["graph", "--seed", "3", "--only", wanted, "--kinds", "outside"]) == 0
    shown = [" ".join(line.split()[1:]) for line in capsys.readouterr().out.splitlines()]
    assert {"* split n3 n2 n4 | n0 n1", "* cut n1 > n4", "* heal", "n0 pauses"} <= set(shown)
    assert shown[-1] == "* all faults end"


def test_graph_of_a_seed_that_fails_ends_with_the_rule_and_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(Store, "replay", lambda _store, _record: [])  # starts forget what the log says
    assert run(["graph", "--seed", str(KILLS)]) == 1
    assert "*  fails; disks keep what they said they have: " in capsys.readouterr().out.splitlines()[-1]


def test_scenario_is_run_and_drawn(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "split.txt"
    file.write_text("cluster a b\nsplit a | b\nset a k 1\nrun 1s\nheal\nsettle\n----\n")
    assert run(["graph", "--scenario", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "    0.000 * split a | b"
    assert any("gets from a: a:5 k = 1" in line or "hears a: " in line for line in lines)
    assert run(["graph", "--scenario", str(file), "--kinds", "outside", "-o", "mermaid"]) == 0
    assert capsys.readouterr().out.count("Note over p0,p1: ") == 2


def test_scenario_that_fails_is_drawn_up_to_there(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "never.txt"
    file.write_text("cluster a b\nset a k 1\nwait a passive\n----\n")
    assert run(["graph", "--scenario", str(file)]) == 1
    said = capsys.readouterr()
    assert "a writes " in said.out
    assert "never.txt, line 3: " in said.err
