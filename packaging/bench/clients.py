"""The Python clients beside redis-py: gets and durable sets, by a blocking client and by tasks of an async one.

Knows: which cells there are, and who takes part.  Does not know how a client asks (`callers`).

Invariant: as for the rounds: one client at a time runs, and both servers are at rest before the next.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import attrs

from bench.callers import fill
from bench.figures import OURS, Figure, ratio_cells, table
from bench.load import RUN_S, Load, LoadError, read_load
from bench.rounds import Sample, turned, wait_rest
from bench.servers import ROOT, Server

PEER: Final = "redis-py"


@attrs.frozen
class ClientCell:
    """One way to ask."""

    verb: Literal["get", "set"]
    loop: Literal["blocking", "asyncio", "trio"]
    tasks: int = 1

    @property
    def name(self) -> str:
        return f"{self.verb} {self.loop}" + ("" if self.loop == "blocking" else f" {self.tasks}")

    @property
    def peer_loop(self) -> str:
        """redis-py knows no trio: then it runs under asyncio."""
        return "asyncio" if self.loop == "trio" else self.loop


CLIENT_CELLS: Final = (
    ClientCell("get", "blocking"),
    ClientCell("get", "asyncio", 1),
    ClientCell("get", "asyncio", 32),
    ClientCell("get", "trio", 1),
    ClientCell("get", "trio", 32),
    ClientCell("set", "blocking"),
    ClientCell("set", "asyncio", 32),
    ClientCell("set", "trio", 32),
)


def run_clients(
    servers: Mapping[str, Server], *, rounds: int, seconds: float, say: Callable[[str], None]
) -> list[Sample]:
    """Load what is read, then measure. `servers` are distkv, redis and redis-always.

    Raises:
        LoadError: a client did not come to its end.
    """
    for name in ("distkv", "redis"):
        fill(servers[name].protocol, servers[name].port)
    samples: list[Sample] = []
    for number in range(rounds):
        say(f"clients, round {number + 1} of {rounds}")
        for cell in CLIENT_CELLS:
            for name in turned([OURS, PEER], number):
                samples.append(_measure(servers, name, cell, number, seconds, 1 + len(samples)))
    return samples


def clients_table(figures: Sequence[Figure]) -> str:
    """One line for each client in each cell."""
    head = ["cell", "client", "op/s", "p50 us", "p99 us", "client cpu us/op", "server cpu us/op"]
    head += ["distkv is", "(rounds)", "aim", ""]
    rows = [
        [
            figure.cell, figure.server, "failed" if figure.failure else f"{figure.rate:,.0f}", f"{figure.p50_us:,.0f}",
            f"{figure.p99_us:,.0f}", f"{figure.caller_us:,.1f}", f"{figure.cpu_us:,.1f}", *ratio_cells(figure),
        ]
        for figure in figures
    ]  # fmt: skip
    return table(head, rows)


# -- inside -------------------------------------------------------------------------------------------------------


def _measure(
    servers: Mapping[str, Server], name: str, cell: ClientCell, number: int, seconds: float, tag: int
) -> Sample:
    if name == OURS:
        server, loop = servers["distkv"], str(cell.loop)
    else:
        server, loop = servers["redis" if cell.verb == "get" else "redis-always"], cell.peer_loop
    before = server.cpu_s()
    load = _call(server, loop, cell.verb, cell.tasks, seconds, tag)
    wait_rest(list(servers.values()))
    return Sample(number, cell.name, name, load, server.cpu_s() - before)


def _call(server: Server, loop: str, verb: str, tasks: int, seconds: float, tag: int) -> Load:
    words = [server.protocol, loop, str(server.port), verb, str(tasks), str(seconds), str(tag)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, Path(__file__).parents[1])))}
    command = [sys.executable, "-m", "bench.callers", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + RUN_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"{' '.join(words)} did not end") from error
    if done.returncode:
        raise LoadError(f"{' '.join(words)}: {done.stderr[-2000:].strip()}")
    return read_load(done.stdout)
