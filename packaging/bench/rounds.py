"""Gets and sets side by side: interleaved rounds over all servers, the order turned from round to round.

Knows: which cells there are and who takes part in which.  Does not know what becomes of the figures (`figures`).

Invariant: one server at a time is under load, and no cell begins before all servers are at rest: work that a server
puts off is counted as its own, and slows nobody else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import attrs

from bench.load import Generator, Load, LoadError
from bench.servers import Server

KEYS: Final = 10_000
LOADED_TAG: Final = 1
"""In every value of the keys that are read. Each set cell has a tag of its own, above it."""
READ, WRITTEN = "g", "s"
"""The first letters of the keys that are read, and of those that are written."""
REST_S: Final = 0.1
REST_MAX_S: Final = 5.0
REST_BUSY: Final = 0.1
"""Servers are at rest when together they used less than this part of a processor for `REST_S`."""


@attrs.frozen
class Cell:
    """One way to ask."""

    verb: Literal["get", "set"]
    connections: int
    depth: int
    """Requests under way on each connection."""

    @property
    def name(self) -> str:
        return f"{self.verb} {self.connections}x{self.depth}"


CELLS: Final = tuple(
    Cell(verb, connections, depth)
    for verb in ("get", "set")
    for connections, depth in ((1, 1), (32, 1), (1, 32), (32, 32))
)
HELD_CELLS: Final = (Cell("set", 1, 1), Cell("set", 32, 1))
"""In which a set is answered when three nodes hold it."""
SET_CELLS: Final = tuple(cell for cell in CELLS if cell.verb == "set")
DEEP_CELLS: Final = tuple(cell for cell in CELLS if cell.depth > 1)
"""Where the processor has the most to do."""


@attrs.frozen
class Sample:
    """One server in one cell of one round."""

    round: int
    cell: str
    server: str
    load: Load
    cpu_s: float
    """What the server used, until it was at rest again."""


def takes_part(server: str, cell: Cell) -> bool:
    """Redis answers gets as packaged, and sets with an append-only file that is synced always.

    etcd's gateway answers the requests of one HTTP/1.1 connection one by one, so that depth would say nothing.
    """
    match server:
        case "redis":
            return cell.verb == "get"
        case "redis-always":
            return cell.verb == "set"
        case "etcd":
            return cell.depth == 1
        case _:
            return True


def turned(names: Sequence[str], count: int) -> list[str]:
    """The same names, begun `count` places later."""
    at = count % len(names) if names else 0
    return [*names[at:], *names[:at]]


def run_rounds(
    servers: Mapping[str, Server],
    generator: Generator,
    *,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
    cells: Sequence[Cell] = CELLS,
    beside: Sequence[Server] = (),
) -> list[Sample]:
    """Load what is read, then measure. The servers `beside` are not asked, but work too: they must be at rest as well.

    Raises:
        LoadError: a server went away, or its data could not be loaded.
    """
    for server in servers.values() if any(cell.verb == "get" for cell in cells) else ():
        fill(server, generator, READ)
    samples: list[Sample] = []
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for cell in cells:
            names = [name for name in servers if takes_part(name, cell)]
            for name in turned(names, number):
                tag = LOADED_TAG + 1 + len(samples)
                samples.append(_measure(servers, name, cell, generator, number, seconds, tag, beside))
    return samples


def fill(server: Server, generator: Generator, family: str) -> None:
    """Write every key of a family once.

    Raises:
        LoadError: the server went away, or a write failed.
    """
    loaded = generator.run(server.protocol, server.port, "fill", depth=32, keys=KEYS, family=family, tag=LOADED_TAG)
    if loaded.failure:
        raise LoadError(f"{server.name}: {loaded.failure}")


def wait_rest(servers: Sequence[Server]) -> None:
    """Until no server works on anything, or for so long that it will not end."""
    servers = list({server.pid: server for server in servers}.values())  # one process may be asked in two ways
    deadline = time.monotonic() + REST_MAX_S
    before = sum(server.cpu_s() for server in servers)
    while time.monotonic() < deadline:
        time.sleep(REST_S)
        now = sum(server.cpu_s() for server in servers)
        if now - before < REST_BUSY * REST_S + 0.011:  # the kernel counts in hundredths of a second
            return
        before = now


def _measure(
    servers: Mapping[str, Server],
    name: str,
    cell: Cell,
    generator: Generator,
    number: int,
    seconds: float,
    tag: int,
    beside: Sequence[Server],
) -> Sample:
    server = servers[name]
    is_get = cell.verb == "get"
    cpu_before = server.cpu_s()
    load = generator.run(
        server.protocol,
        server.port,
        cell.verb,
        connections=cell.connections,
        depth=cell.depth,
        seconds=seconds,
        keys=KEYS,
        family=READ if is_get else WRITTEN,
        tag=LOADED_TAG if is_get else tag,
    )
    wait_rest([*servers.values(), *beside])
    return Sample(number, cell.name, name, load, server.cpu_s() - cpu_before)
