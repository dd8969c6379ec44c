"""A standalone cluster of Spark on loopback, from the package that pip installed.

Knows: how a master and workers are started, known to be ready, and ended.  Does not know the jobs that run there.

Invariant: when `open_standalone` is left, all that it started has ended, executors and their Python processes included.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import pyspark

from tests.process.fork_server import die_with_parent
from tests.process.ports import free_port
from tests.process.servers import wait_until
from tests.spark import home
from tests.spark.jobs import kill_tree, tree_of

SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
START_S: Final = 60.0


@attrs.frozen
class Standalone:
    """A master, and workers with one processor each."""

    port: int
    workers: list[subprocess.Popen[bytes]]

    @property
    def master(self) -> str:
        """For `--master`."""
        return f"spark://127.0.0.1:{self.port}"

    def busy_workers(self) -> list[subprocess.Popen[bytes]]:
        """Those that have begun a task in Python."""
        return [one for one in self.workers if any("pyspark.daemon" in _words(pid) for pid in tree_of(one.pid))]


@contextmanager
def open_standalone(directory: Path, environment: Mapping[str, str] | None = None) -> Iterator[Standalone]:
    """A master with two workers that are ready. `environment`: what theirs has besides."""
    directory.mkdir(parents=True)
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, what: str, *words: str) -> subprocess.Popen[bytes]:
        with (directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [SPARK_CLASS, f"org.apache.spark.deploy.{what}", "--host", "127.0.0.1", "--webui-port", "0", *words],
                cwd=directory,
                env={
                    **_without_spark(os.environ),
                    **home.cluster_environment(),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    **(environment or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        started.append(process)
        return process

    def told() -> str:
        return "\n".join(f"-- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in directory.glob("*.log"))

    def has_registered(count: int) -> bool:
        return (directory / "master.log").read_text(errors="replace").count("Registering worker") == count

    try:
        found = Standalone(free_port(), [])
        start("master", "master.Master", "--port", str(found.port))
        for number in (1, 2):
            words = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"work{number}"))
            found.workers.append(start(f"worker{number}", "worker.Worker", *words, found.master))
        wait_until(lambda: has_registered(2), "two workers are registered", START_S, told)
        yield found
    finally:
        for process in started:
            kill_tree(process.pid)
            process.wait()


def _without_spark(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what tells Spark of this process, which has one of its own."""
    return {name: value for name, value in environment.items() if not name.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}


def _words(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
