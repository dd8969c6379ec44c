"""How many instructions of the processor a node carries out for a request, with this code or that of other folders.

    PYTHONPATH=packaging python -m bench.instructions --directory /var/tmp/instructions --code . ../before

Knows: valgrind's callgrind.  Does not know what the instructions are for.

Invariant: what a node does while nobody asks is counted by itself and subtracted, so the figure is nearly the same on a
machine that does other things, too. Each node is a new one.

A token takes so long that this is not enough: what a node does besides depends on how long it is, and that on the disk
and on the machine. So tokens are counted several times, each time so many of them, and the figure is what fits best if
each costs the same, and each second costs the same besides. With --directory below /dev/shm it waits for no disk.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, Literal

import attrs

from bench.figures import table
from bench.load import Generator, build
from bench.servers import ROOT, Server
from bench.servers import distkv as distkv_server
from bench.token_turns import open_turns
from bench.tokens import settings

KEYS: Final = 200
DEPTH: Final = 32
"""Requests under way, on one connection."""
WARM_S: Final = 3.0
TURNS: Final = 100
"""So many tokens are acquired and released in a count; in each second one three times as many."""
COUNTS: Final = 3
"""So many pairs of counts."""
NODE: Final = "counted"
TOTALS: Final = re.compile(r"^totals: (\d+)$", re.MULTILINE)


@attrs.define
class Watched:
    """A node whose instructions are counted."""

    node: Server
    dumps: Path
    """What callgrind writes; a dump has a number behind that."""
    count: int = 0

    def instructions_of(self, what: Callable[[], None]) -> int:
        """Those of the node while this is done."""
        self._control("--zero")
        self._control("--instr=on")
        what()
        self._control("--instr=off")
        self._control("--dump")
        self.count += 1
        found = TOTALS.search(Path(f"{self.dumps}.{self.count}").read_text())
        return 0 if found is None else int(found[1])

    def _control(self, option: str) -> None:
        command = ["callgrind_control", option, str(self.node.pid)]
        subprocess.run(command, check=True, capture_output=True)


def watched_node(directory: Path, code: Path) -> Watched:
    """A new node with the code of this folder, which is not started. It serves tokens."""
    node = distkv_server(directory, NODE, config=settings([NODE]))
    dumps = node.directory / "callgrind"
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={dumps}"]
    return Watched(attrs.evolve(node, command=[*valgrind, *node.command], code=code), dumps)


def instructions_for(
    generator: Generator, directory: Path, code: Path, verb: Literal["get", "set"], seconds: float
) -> float:
    """For each request of a connection that has many under way.

    Raises:
        ServerError: the node did not start.
        LoadError: it did not answer.
    """
    watched = watched_node(directory, code)
    answered = 0

    def ask(verb: Literal["get", "set", "fill"], seconds: float) -> None:
        nonlocal answered
        port = watched.node.port
        load = generator.run("distkv", port, verb, depth=DEPTH, seconds=seconds, keys=KEYS, family="k", tag=1)
        answered = load.acknowledged

    try:
        watched.node.start()
        ask("fill", 0.0)
        ask(verb, WARM_S)
        idle = watched.instructions_of(lambda: time.sleep(seconds))
        busy = watched.instructions_of(lambda: ask(verb, seconds))
        return (busy - idle) / answered
    finally:
        watched.node.end(signal.SIGTERM)


@attrs.frozen
class Counted:
    """One count."""

    operations: int
    seconds: float
    instructions: int


def each_of(counts: Sequence[Counted]) -> float:
    """What an operation costs, if each costs the same, and each second the same besides: by least squares."""
    squares = sum(one.operations**2 for one in counts)
    products = sum(one.operations * one.seconds for one in counts)
    seconds = sum(one.seconds**2 for one in counts)
    of_operations = sum(one.operations * one.instructions for one in counts)
    of_seconds = sum(one.seconds * one.instructions for one in counts)
    return (of_operations * seconds - of_seconds * products) / (squares * seconds - products**2)


def instructions_for_token(directory: Path, code: Path, idle_s: float) -> float:
    """For each token that is acquired and released.

    Raises:
        ServerError: the node did not start.
        LoadError: it did not answer.
    """
    watched = watched_node(directory, code)
    counts: list[Counted] = []

    def count(operations: int, what: Callable[[], None]) -> None:
        began = time.perf_counter()
        instructions = watched.instructions_of(what)
        counts.append(Counted(operations, time.perf_counter() - began, instructions))

    try:
        watched.node.start()
        with open_turns(watched.node.port) as turns:
            turns.open_session()
            turns.take(TURNS)
            for _ in range(COUNTS):
                count(0, lambda: time.sleep(idle_s))
                for operations in (TURNS, 3 * TURNS):
                    turns.open_session()
                    count(operations, partial(turns.take, operations))
    finally:
        watched.node.end(signal.SIGTERM)
    return each_of(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--directory", type=Path, required=True, help="where the data goes: empty, or not there")
    parser.add_argument("--code", type=Path, nargs="+", default=[ROOT], help="folders that have a folder distkv")
    parser.add_argument("--verb", choices=["get", "set", "token"], default="get")
    parser.add_argument("--rounds", type=int, default=3, help="of all folders; the medians are shown")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each; of tokens: while nothing is asked")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONHASHSEED"] = "0"
    generator = build(options.directory)
    found: dict[Path, list[float]] = {code.resolve(): [] for code in options.code}
    for number in range(options.rounds):
        for index, (code, seen) in enumerate(found.items()):
            place = options.directory / f"{number}-{index}"
            if options.verb == "token":
                seen.append(instructions_for_token(place, code, options.seconds))
            else:
                seen.append(instructions_for(generator, place, code, options.verb, options.seconds))
            print(f"round {number + 1}: {seen[-1]:,.0f}  {code}", file=sys.stderr)
    first = median(next(iter(found.values())))
    rows = [
        [str(code), f"{median(seen):,.0f}", f"{min(seen):,.0f} to {max(seen):,.0f}", f"{median(seen) / first:.3f}"]
        for code, seen in found.items()
    ]
    sys.stdout.write(table(["code", f"for a {options.verb}", "", "to the first"], rows) + "\n")


if __name__ == "__main__":
    main()
