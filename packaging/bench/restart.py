"""Memory, and the way back: many entries of 100 bytes, resident size, and time until a restarted server serves.

Knows: how the servers are ended.  Does not know what they keep where.

Invariant: what a restarted server shows is checked against what was written; a server that lost something has no time.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Final

import attrs

from bench.figures import table
from bench.load import Generator, LoadError
from bench.rounds import wait_rest
from bench.servers import Server

FAMILY: Final = "m"
TAG: Final = 7
CHECK_S: Final = 0.5

AIM_ENTRIES: Final = 100_000
RESIDENT_AIM_MB: Final = 120
READY_AIM_S: Final = 1.5


@attrs.frozen
class Restart:
    """One server with all the entries; sizes in bytes, times from the start of the process until it serves."""

    server: str
    entries: int
    load_s: float
    """How long all the sets took, on 32 connections, 4 deep."""
    empty_bytes: int
    loaded_bytes: int
    stopped_s: float
    """Ready again after SIGTERM."""
    stopped_bytes: int
    """Then."""
    killed_s: float
    """Ready again after SIGKILL."""
    killed_bytes: int


def measure(server: Server, generator: Generator, entries: int) -> Restart:
    """Start it, fill it, stop and start it, kill and start it; at the end it is dead.

    Raises:
        LoadError, ServerError: it went away, or lost something.
    """
    try:
        server.start()
        wait_rest([server])
        empty = server.resident_bytes()
        load = generator.run(
            server.protocol, server.port, "fill", connections=32, depth=4, keys=entries, family=FAMILY, tag=TAG
        )
        if load.failure:
            raise LoadError(f"{server.name}: {load.failure}")
        wait_rest([server])
        loaded = server.resident_bytes()
        stopped_s, stopped = _again(server, generator, entries, signal.SIGTERM)
        killed_s, killed = _again(server, generator, entries, signal.SIGKILL)
        return Restart(server.name, entries, load.seconds, empty, loaded, stopped_s, stopped, killed_s, killed)
    finally:
        server.end(signal.SIGKILL)


def restarts_table(restarts: Sequence[Restart]) -> str:
    """One line for each server, and whether ours is as small and as fast as it is to be."""
    head = ["server", "loaded in s", "MB empty", "MB loaded", "ready s after stop", "MB", "ready s after kill", "MB"]
    rows = [
        [
            found.server, f"{found.load_s:.2f}", _mb(found.empty_bytes), _mb(found.loaded_bytes),
            f"{found.stopped_s:.2f}", _mb(found.stopped_bytes), f"{found.killed_s:.2f}", _mb(found.killed_bytes),
        ]
        for found in restarts
    ]  # fmt: skip
    aims = [
        f"{found.server}: resident <= {RESIDENT_AIM_MB} MB: {_verdict(_largest(found) <= RESIDENT_AIM_MB * 1e6)}; "
        f"ready <= {READY_AIM_S:g} s: {_verdict(max(found.stopped_s, found.killed_s) <= READY_AIM_S)}"
        for found in restarts
        if found.server == "distkv" and found.entries == AIM_ENTRIES
    ]
    return "\n".join([table(head, rows), *aims])


def _again(server: Server, generator: Generator, entries: int, number: signal.Signals) -> tuple[float, int]:
    server.end(number)
    seconds = server.start()
    found = generator.run(
        server.protocol, server.port, "get", depth=32 if server.protocol != "etcd" else 1, seconds=CHECK_S,
        keys=entries, family=FAMILY, tag=TAG,
    )  # fmt: skip
    if found.failure:
        raise LoadError(f"{server.name} after {number.name}: {found.failure}")
    wait_rest([server])
    return seconds, server.resident_bytes()


def _largest(found: Restart) -> int:
    return max(found.loaded_bytes, found.stopped_bytes, found.killed_bytes)


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f}"
