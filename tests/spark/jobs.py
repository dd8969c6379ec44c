"""The command `distkv pipeline` as a user types it, its process tree, and its end; and the same command line on a
session that is there.

Knows: how a job is started in a process group of its own, asked for its result, and killed with all that it started.
Does not know what any job does.

To start a job is to start Java, which takes longer than most jobs. What a test wants to know of the start, the end or
the processes of one comes from `run_job`; what a job does, says, and ends with is the same with `run_here`.

Invariant: a job that is killed is gone with its JVM and Spark's workers when `kill` returns; they are found by their
parents, since some have process groups of their own.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Final

import attrs
from pyspark.sql import SparkSession

from distkv.cli.main import run
from distkv.cli.session import CliSession
from tests.process.forks import CHECKOUT
from tests.process.servers import ROOT, wait_until

JOB_S: Final = 600.0
LOCAL: Final = "local[2]"
INTERPRETED: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
"""Else Spark writes Java for each query, compiles it, and looks at each stage before it plans the next one: a third of
all that it does for tables as small as those of tests. So does the session of the tests; commands that are typed or
started do as at a user's."""

Process = subprocess.Popen[bytes]


@attrs.frozen
class Ended:
    """How a job ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, object]:
        """What it printed with `-o json`, after it did what it was asked for."""
        assert self.code == 0, self.err
        return self.printed

    @property
    def printed(self) -> dict[str, object]:
        """What it printed with `-o json`, however it ended."""
        found: dict[str, object] = json.loads(self.out)
        return found

    @property
    def complaint(self) -> str:
        """The one line in which it said why it failed, with exit code 1."""
        assert (self.code, self.out) == (1, ""), (self.code, self.out, self.err)
        assert self.err.count("\n") == 1, self.err
        return self.err


def start_job(
    addresses: Iterable[str],
    *words: str,
    master: str = LOCAL,
    program: Sequence[str] = CHECKOUT,
    environment: Mapping[str, str] | None = None,
) -> Process:
    """Begin a job that asks these hosts; its JVM and Spark's workers are in its process tree."""
    return subprocess.Popen(
        [*program, "pipeline", *_hosts(addresses), "--master", master, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def end_of(job: Process) -> Ended:
    """Wait for it; whatever happens meanwhile, it is gone then."""
    try:
        out, err = job.communicate(timeout=JOB_S)
    except BaseException:
        kill(job)
        raise
    return Ended(job.returncode, out.decode(), err.decode())


def run_job(addresses: Iterable[str], *words: str, **how: object) -> Ended:
    """A job from its beginning to its end; `how` as in `start_job`."""
    return end_of(start_job(addresses, *words, **how))  # type: ignore[arg-type]


def run_here(spark: SparkSession, addresses: Iterable[str], *words: str) -> Ended:
    """A job in this process, on a session that is there before and after it."""
    session = CliSession(begin_spark=lambda *_, **__: nullcontext(spark))
    before = signal.getsignal(signal.SIGTERM)  # `archive` has a handler of its own, which nobody needs after it
    with _stream() as out, _stream() as err:
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = run(["pipeline", *_hosts(addresses), *words], session)
        finally:
            signal.signal(signal.SIGTERM, before)
        return Ended(code, _text(out), _text(err))


@contextmanager
def running(job: Process) -> Iterator[Process]:
    """A job that is killed at the end of the block, if it has not ended by then."""
    try:
        yield job
    finally:
        if job.poll() is None:
            kill(job)


def kill(job: Process) -> None:
    """All of its tree at once."""
    kill_tree(job.pid)
    job.communicate()


def kill_tree(root: int) -> None:
    """End a process and all that it started, and see that they are gone."""
    tree = tree_of(root)
    for pid in tree:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(_is_running(pid) for pid in tree), "the tree is gone")


def tree_of(root: int) -> list[int]:
    """A process, and all that it started and what those started."""
    found, parents = [root], _parents()
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


# -- inside -------------------------------------------------------------------------------------------------------


def _hosts(addresses: Iterable[str]) -> list[str]:
    return [part for address in addresses for part in ("-h", address)]


def _stream() -> io.TextIOWrapper:
    """What is like a stream of a process: text, with bytes below it."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    return found


def _is_running(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
