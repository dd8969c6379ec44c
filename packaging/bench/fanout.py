"""Fan-out: one writer and many watchers, `watch` on a prefix beside `SUBSCRIBE` on a channel.

Knows: which cells there are.  Does not know how a delivery is checked (`fanout.c`).

Invariant: as for the rounds: one server at a time is under load, and all are at rest before the next; in each cell the
writer has equally many messages under way to each server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from bench.load import Generator
from bench.rounds import Sample, turned, wait_rest
from bench.servers import Server


@attrs.frozen
class FanOut:
    """So many watchers of the same changes, each on a connection of its own."""

    watchers: int
    depth: int
    """Messages under way: not answered yet, or not with every watcher."""

    @property
    def name(self) -> str:
        return f"watch {self.watchers}x{self.depth}"


FAN_OUTS: Final = tuple(FanOut(watchers, depth) for watchers in (1, 10, 100, 1000) for depth in (1, 32))

DIFFERENCE: Final = (
    "One op is one message at one watcher. distkv delivers a change that is on the disk (fdatasync) and can be asked\n"
    "for again, Redis a message that is kept nowhere."
)


def run_fan_outs(
    servers: Mapping[str, Server], generator: Generator, *, rounds: int, seconds: float, say: Callable[[str], None]
) -> list[Sample]:
    """Measure every cell of every round.

    Raises:
        LoadError: a server went away, or did not deliver everything.
    """
    samples: list[Sample] = []
    for number in range(rounds):
        say(f"fan-out, round {number + 1} of {rounds}")
        for cell in FAN_OUTS:
            for name in turned(list(servers), number):
                server = servers[name]
                before = server.cpu_s()
                load = generator.fan_out(
                    server.protocol, server.port, watchers=cell.watchers, depth=cell.depth, seconds=seconds,
                    tag=len(samples),
                )  # fmt: skip
                wait_rest(list(servers.values()))
                samples.append(Sample(number, cell.name, name, load, server.cpu_s() - before))
    return samples
