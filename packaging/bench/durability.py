"""Whether a set that is answered was on the disk: the kernel's calls are counted while the measured servers work on.

Knows: how strace is attached and what it writes, and what the files of our log are called.  Does not know how a server
groups its commits.

Invariant: every fdatasync and fsync between the attaching, which is awaited, and the end is counted, once.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from bench.figures import table
from bench.load import Generator, LoadError
from bench.rounds import wait_rest
from bench.servers import Server, ServerError
from distkv.client.blocking import Client

CONNECTIONS: Final = (1, 32)
FAMILY: Final = "d"
KEYS: Final = 10_000
TAG: Final = 90_000_000
ATTACH_S: Final = 10.0
_CALL: Final = re.compile(r"\b(fdatasync|fsync)\(\d+(?:<(.*?)>)?(?:\)| <unfinished)")
_FAILED: Final = re.compile(r"\b(?:fdatasync|fsync)\b.*= -1 ")
_SEGMENT: Final = "/segment-"


@attrs.frozen
class Proof:
    """One server under sets, and what the kernel was asked to put on the disk meanwhile."""

    server: str
    connections: int
    acknowledged: int
    """Sets that were answered."""
    calls: int
    """Of fdatasync and fsync by all its threads; of distkv: fdatasync on segments of its log."""
    commits: int | None
    """distkv only: how many it says that it did."""
    segments: int
    """distkv only: new segments, of which each had one call more, for its header."""
    failed: int = 0
    """Calls that the kernel did not carry out."""

    @property
    def verdict(self) -> str:
        """What the counts show."""
        if self.failed:
            return f"NOT PROVEN: {self.failed} calls failed"
        if self.commits is not None and self.calls != self.commits + self.segments:
            return f"NOT PROVEN: {self.calls} calls, {self.commits} commits and {self.segments} new segments"
        if self.connections == 1 and self.calls - self.segments < self.acknowledged:
            return "NOT PROVEN: fewer calls than sets, one at a time"
        if self.commits is not None:
            return "proven: calls = commits + new segments"
        return "at least one call for each set" if self.connections == 1 else ""


def count_calls(trace: Iterable[str]) -> tuple[Counter[tuple[str, str]], int]:
    """Calls in the output of `strace -f -y`, by their name and the file; and how many lines tell of a failure."""
    calls: Counter[tuple[str, str]] = Counter()
    failed = 0
    for line in trace:
        if found := _CALL.search(line):
            calls[found[1], found[2] or ""] += 1
        if _FAILED.search(line):
            failed += 1
    return calls, failed


def prove(
    servers: Mapping[str, Server], generator: Generator, directory: Path, *, seconds: float
) -> tuple[list[Proof], str]:
    """The servers whose sets are durable, one after another; and why there is no proof, if there is none.

    Raises:
        LoadError, ServerError: a server went away.
    """
    proofs = []
    try:
        for name, server in servers.items():
            for connections in CONNECTIONS:
                trace = directory / f"strace-{name}-{connections}"
                proofs.append(_prove(server, generator, trace, connections, seconds))
    except _NoStraceError as error:
        return proofs, str(error)
    return proofs, ""


def proofs_table(proofs: Iterable[Proof]) -> str:
    """One line for each run."""
    rows = [
        [
            proof.server, f"set {proof.connections}x1", f"{proof.acknowledged:,}", f"{proof.calls:,}",
            "" if proof.commits is None else f"{proof.commits:,}",
            "" if proof.commits is None else str(proof.segments),
            f"{proof.acknowledged / max(proof.calls, 1):.2f}", proof.verdict,
        ]
        for proof in proofs
    ]  # fmt: skip
    return table(["server", "cell", "sets", "calls", "commits", "new segments", "sets/call", ""], rows)


# -- inside -------------------------------------------------------------------------------------------------------


class _NoStraceError(Exception):
    """strace is missing, or may not look at other processes here."""


def _prove(server: Server, generator: Generator, trace: Path, connections: int, seconds: float) -> Proof:
    is_ours = server.protocol == "distkv"
    old = {path.name for path in server.directory.rglob("segment-*")}
    wait_rest([server])
    with _traced(server, trace):
        before = _commits(server) if is_ours else None
        load = generator.run(
            server.protocol, server.port, "set", connections=connections, seconds=seconds, keys=KEYS, family=FAMILY,
            tag=TAG + connections,
        )  # fmt: skip
        wait_rest([server])
        commits = None if before is None else _commits(server) - before
    if load.failure:
        raise LoadError(f"{server.name}: {load.failure}")
    calls, failed = count_calls(trace.read_text(encoding="utf-8", errors="replace").splitlines())
    if not is_ours:
        return Proof(server.name, connections, load.acknowledged, calls.total(), None, 0, failed)
    log = {path: count for (call, path), count in calls.items() if call == "fdatasync" and _SEGMENT in path}
    new = {path for path in log if Path(path).name not in old}
    return Proof(server.name, connections, load.acknowledged, sum(log.values()), commits, len(new), failed)


def _commits(server: Server) -> int:
    """How many group commits a node counts."""
    with Client([("127.0.0.1", server.port)]) as client:
        counters = client.state()["counters"]
    if not isinstance(counters, Mapping):
        raise ServerError(f"{server.name} shows no counters")
    return int(counters["commits_inline"]) + int(counters["commits_on_thread"])


@contextmanager
def _traced(server: Server, trace: Path) -> Iterator[None]:
    """strace looks on; what it saw is in the file `trace` afterwards."""
    command = ["strace", "-f", "-y", "-e", "trace=fdatasync,fsync", "-o", str(trace), "-p", str(server.pid)]
    said = trace.with_suffix(".said")
    try:
        with said.open("wb") as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, process_group=0)
    except FileNotFoundError as error:
        raise _NoStraceError("there is no strace: apt-get install strace") from error
    try:
        deadline = time.monotonic() + ATTACH_S
        while "attached" not in said.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise _NoStraceError(f"strace could not attach: {said.read_text(errors='replace').strip()}")
            time.sleep(0.01)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
