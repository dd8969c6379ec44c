"""Who is below a process, as /proc tells it.

Knows: real processes of this test.  Does not end any but its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from distkv.cli.descendants import below, look_at, read_stat, signal_below


def test_name_of_a_process_may_hold_anything() -> None:
    tail = " ".join(["S", "7", *map(str, range(3, 23))])
    found = read_stat(f"12 (a) b (c)) {tail}\n")
    assert (found.pid, found.parent, found.is_dead, found.started) == (12, 7, False, 20)


def test_process_that_is_not_there_is_none() -> None:
    assert look_at(2**22 + 1) is None


def test_child_in_a_session_of_its_own_is_found_and_reached() -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in [found.pid for found in below(os.getpid())]
        assert signal_below(child.pid, signal.SIGKILL) == 0
        assert child.poll() is None
        child.kill()
