"""Groups without a store, as the command line takes part in them: real processes on loopback.

Knows: `distkv swim run` and `distkv swim members`.  Does not know datagrams.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.process.ports import free_port

COMMAND = [sys.executable, "-m", "distkv", "swim"]
DEADLINE_S = 60


@contextmanager
def member(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "run", name, "-o", "json", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def until(process: subprocess.Popen[str], node: str, state: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line).get("member", {})
        if (told.get("node"), told.get("state")) == (node, state):
            return
    raise AssertionError(f"{node} was never {state}")


def test_two_find_each_other_say_something_and_one_leaves(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(subprocess.check_output([*COMMAND, "keygen"], text=True))
    key.chmod(0o600)
    sealed, at = ["--secret-file", str(key)], f"127.0.0.1:{free_port()}"
    with (
        member("desk", "--bind", at, *sealed) as desk,
        member("lamp", "--bind", "127.0.0.1:0", "--join", at, *sealed) as lamp,
    ):
        until(desk, "lamp", "alive")
        assert lamp.stdin is not None
        assert desk.stdout is not None
        lamp.stdin.write("on\n")
        lamp.stdin.flush()
        assert json.loads(desk.stdout.readline()) == {"message": {"node": "lamp", "text": "on"}}
        asked = subprocess.run(
            [*COMMAND, "members", at, *sealed, "-o", "json"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        assert {one["node"]: one["state"] for one in json.loads(asked.stdout)} == {"desk": "alive", "lamp": "alive"}
        lamp.send_signal(signal.SIGTERM)
        until(desk, "lamp", "left")
        assert lamp.wait(DEADLINE_S) == 0


def test_asking_where_nobody_is_fails_in_one_line() -> None:
    at = f"127.0.0.1:{free_port()}"
    ran = subprocess.run([*COMMAND, "members", at], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (5, "", 1)
    assert "nobody of the group answers" in ran.stderr
