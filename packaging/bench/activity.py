"""Activity: everybody who listens is told, beside Redis, beside this node's own watchers, and beside NATS on three.

Knows: which cells there are, and what is asked of whom.  Does not know how a delivery is checked (`fanout.c`).

Invariant: as for the rounds: one server, or group of servers, at a time is under load, and all are at rest before the
next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from bench.load import Generator, Load
from bench.network import client_of
from bench.rounds import KEYS, WRITTEN, Sample, turned, wait_rest
from bench.servers import Server
from bench.tokens import Group

WATCHERS: Final = "distkv-watch"
"""The same node, where a path is watched."""
HELD: Final = "distkv-held"
"""The same nodes, which are asked for sets that three nodes hold."""
SETTINGS: Final = 'activity: {listen: "127.0.0.1:0", rate: 1000000}\n'
"""A user may send as much as he likes: one client sends all."""
DIFFERENCE: Final = (
    "One op is one activity at one listener, or one echo. Clients of its own node are told when two\n"
    "other nodes have it. Redis and NATS tell who is there, and keep nothing."
)


@attrs.frozen
class ActivityCell:
    """So many who listen, each on a connection of its own; without any, what counts is the echo."""

    listeners: int
    depth: int
    """Activities under way: not echoed yet, or not with everybody."""

    @property
    def name(self) -> str:
        return f"hear {self.listeners}x{self.depth}" if self.listeners else f"echo 1x{self.depth}"


HEAR: Final = (ActivityCell(100, 32), ActivityCell(1000, 32))
ECHO: Final = ActivityCell(0, 1)
TOLD: Final = ActivityCell(3, 1)
"""One after the other, so that a rate is the inverse of the time until all are told."""
ALONE_CELLS: Final = HEAR
THREE_CELLS: Final = (HEAR[-1], TOLD, ECHO)


def takes_part(name: str, cell: ActivityCell) -> bool:
    """Only nodes echo, and a set that is held is beside an echo only."""
    return {HELD: cell == ECHO, "nats": cell != ECHO}.get(name, True)


def listener_of(node: Server) -> Server:
    """The same process, asked as a client of activity asks it.

    Raises:
        DistkvError: it does not say where its listener is.
    """
    with client_of(node) as client:
        place: Mapping[str, Any] = client.request("activity_place", is_read=True)
    return attrs.evolve(node, name="activity", protocol="activity", port=place["port"])


def watched(node: Server) -> Server:
    """The same process, asked as a client of the store asks it."""
    return attrs.evolve(node, name=WATCHERS)


def run_activity(
    groups: Mapping[str, Group],
    generator: Generator,
    cells: Sequence[ActivityCell],
    *,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
) -> list[Sample]:
    """Measure every cell of every round.

    Raises:
        LoadError: a server went away, or did not deliver everything.
    """
    samples: list[Sample] = []
    servers = [server for group in groups.values() for server in group.all]
    for number in range(rounds):
        say(f"activity, round {number + 1} of {rounds}")
        for cell in cells:
            for name in turned([name for name in groups if takes_part(name, cell)], number):
                before = groups[name].cpu_s()
                load = _run(generator, name, groups[name], cell, seconds, len(samples))
                wait_rest(servers)
                samples.append(Sample(number, cell.name, name, load, groups[name].cpu_s() - before))
    return samples


def _run(generator: Generator, name: str, group: Group, cell: ActivityCell, seconds: float, tag: int) -> Load:
    asked = group.asked
    if name == HELD:
        return generator.run(
            "held", asked.port, "set", connections=1, depth=cell.depth, seconds=seconds, keys=KEYS, family=WRITTEN,
            tag=tag + 2,
        )  # fmt: skip
    return generator.fan_out(
        asked.protocol, asked.port, watchers=cell.listeners, depth=cell.depth, seconds=seconds, tag=tag,
        watched=[server.port for server in group.all], paths=1,
    )  # fmt: skip
