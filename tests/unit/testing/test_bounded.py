"""A command with a bound in time leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from testing.bounded import Ran, Stopped, run_bounded
from testing.steps import ROOT, step

from tests.process.servers import wait_until

CHILDREN = """
import os, subprocess, sys
words = [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.pause()"]
for is_apart in (False, True):
    print(subprocess.Popen(words, start_new_session=is_apart).pid, flush=True)
"""
"""Two that nobody waits for, one of them in a session of its own."""


def run(code: str, within_s: float = 600, grace_s: float = 600) -> Ran:
    return run_bounded(step(sys.executable, "-c", code), os.environ, within_s, grace_s)


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_command_that_ends_in_time_has_its_code_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run("print('first'); print('last'); raise SystemExit(3)")
    assert (ran.code, ran.lines, ran.stopped) == (3, ("first", "last"), None)
    assert capsys.readouterr().out == "first\nlast\n"


def test_what_a_command_leaves_running_is_ended() -> None:
    ran = run(CHILDREN)
    assert ran.code == 0
    assert len(ran.lines) == 2
    assert not any(map(is_running, ran.lines))


def test_command_that_is_late_is_interrupted_and_not_killed() -> None:
    ran = run("import signal; signal.pause()", within_s=0.5)
    assert ran.stopped is Stopped.LATE
    assert ran.code != -signal.SIGKILL


def test_command_that_does_not_end_when_it_is_asked_is_killed() -> None:
    ran = run(f"{CHILDREN}\nimport signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.pause()", 2, 0.1)
    assert ran.stopped is Stopped.LATE
    assert ran.code in (-signal.SIGKILL, -signal.SIGINT)
    assert not any(map(is_running, ran.lines))


OUTER = """
import os, sys
from testing.bounded import run_bounded
from testing.steps import step
CODE = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
run_bounded(step(sys.executable, "-c", CODE), os.environ, 600)
"""


def test_command_ends_with_a_soak_that_is_killed() -> None:
    packaging = {**os.environ, "PYTHONPATH": str(ROOT / "packaging")}
    with subprocess.Popen([sys.executable, "-c", OUTER], env=packaging, stdout=subprocess.PIPE, text=True) as outer:
        assert outer.stdout is not None
        pid = outer.stdout.readline().strip()
        assert is_running(pid)
        outer.kill()
    wait_until(lambda: not is_running(pid), "the command has ended")


def test_program_that_is_not_there_is_told() -> None:
    ran = run_bounded(step("no-such-program-of-ours"), os.environ, 1)
    assert ran.code == 127
    assert "no-such-program-of-ours" in ran.lines[0]
