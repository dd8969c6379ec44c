"""Whether Linux heard the wish for short turns, in a process of its own, which keeps it to itself."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

ASKED: Final = """
import os
from distkv.daemon import processor
before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
print(processor.ask_for_short_turns())
assert (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == before
"""


def _run(program: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has such turns")
def test_wish_changes_neither_policy_nor_priority() -> None:
    assert _run(ASKED)[0] in ("True", "False")  # older kernels, and filters of system calls, do not hear it


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has such turns")
def test_policy_that_somebody_chose_is_left_alone() -> None:
    chosen = "import os\nos.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))"
    assert _run(chosen + ASKED) == ["False"]


@pytest.mark.parametrize("known", ["platform.machine = lambda: 'pdp11'", "platform.system = lambda: 'Plan9'"])
def test_other_systems_are_not_asked(known: str) -> None:
    assert _run(f"import platform\n{known}{ASKED}") == ["False"]
