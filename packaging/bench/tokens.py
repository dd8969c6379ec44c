"""Tokens beside etcd's locks: interleaved rounds on one server each, and on three each.

Knows: which cells there are, and whose processor time counts.  Does not know how a grant is checked (`tokens.c`).

Invariant: as for the rounds: one server, or group of servers, at a time is under load, and all are at rest before the
next. No run uses the name of another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import attrs

from bench.load import Generator
from bench.rounds import Sample, turned, wait_rest
from bench.servers import Server

NAMES: Final = 16
"""Tokens of each connection that is alone with them. It takes them in turn: they are served by all servers alike."""
TAGS: Final = 10**8
"""How many different runs there can be. Which one it is decides by which server a token is served."""


def settings(servers: Sequence[str]) -> str:
    """The configuration of nodes whose tokens these serve."""
    return f"tokens: {{servers: [{', '.join(servers)}]}}\n"


@attrs.frozen
class TokenCell:
    """So many connections, each with tokens of its own (alone), or all with the same one (handed)."""

    mode: Literal["alone", "handed"]
    connections: int

    @property
    def name(self) -> str:
        return f"{self.mode} {self.connections}"


TOKEN_CELLS: Final = (TokenCell("alone", 1), TokenCell("alone", 32), TokenCell("handed", 32))


@attrs.frozen
class Group:
    """Servers of one kind, of which one is asked."""

    asked: Server
    others: Sequence[Server] = ()

    @property
    def all(self) -> list[Server]:
        return [self.asked, *self.others]

    def cpu_s(self) -> float:
        """What all of them used since their start."""
        return sum(server.cpu_s() for server in self.all)


def run_tokens(
    groups: Mapping[str, Group], generator: Generator, *, rounds: int, seconds: float, say: Callable[[str], None]
) -> list[Sample]:
    """Measure every cell of every round.

    Raises:
        LoadError: a server went away, or is silent.
    """
    samples: list[Sample] = []
    servers = [server for group in groups.values() for server in group.all]
    tags = random.sample(range(TAGS), rounds * len(TOKEN_CELLS))
    for number in range(rounds):
        say(f"tokens, round {number + 1} of {rounds}")
        for cell in TOKEN_CELLS:
            tag = tags.pop()
            for name in turned(list(groups), number):
                asked, before = groups[name].asked, groups[name].cpu_s()
                load = generator.lock(
                    asked.protocol, asked.port, cell.mode, connections=cell.connections, names=NAMES, seconds=seconds,
                    tag=tag,
                )  # fmt: skip
                wait_rest(servers)
                samples.append(Sample(number, cell.name, name, load, groups[name].cpu_s() - before))
    return samples
