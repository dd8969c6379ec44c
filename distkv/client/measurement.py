"""How fast one node answers: reads and durable writes, one at a time on each of some connections.

Knows: a closed loop over blocking sockets, and what is made of its times.  Does not know who prints them.

The client is Python in one thread and takes its share of the time, on this host perhaps of the node's own processor. So
the figures tell whether this node is as it was yesterday, and compare with nothing else.

Invariant: what was written is deleted again, also after an interrupt; if it cannot be, the error says what is left.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from itertools import cycle
from typing import Final

import attrs

from distkv.client import failures, node_questions
from distkv.client.addresses import read_address
from distkv.client.blocking import Client
from distkv.client.connection import Connection
from distkv.client.questions import Question, Set
from distkv.errors import DistkvError, RequestError, UnreachableError
from distkv.model.path import Path

VALUE: Final = "x" * 98
"""100 bytes when it is packed."""
PATHS: Final = 100
REPLY_S: Final = 10.0
CONNECT_S: Final = 5.0


class BenchKind(StrEnum):
    """What is done."""

    GET = "get"
    SET = "set"


@attrs.frozen
class Measured:
    """What a while of asking came to."""

    kind: BenchKind
    connections: int
    count: int
    per_second: float
    p50_ms: float
    p99_ms: float


@contextmanager
def scratch(client: Client) -> Iterator[Sequence[Path]]:
    """Paths with values, below a name that nobody uses; gone at the end."""
    root = Path([f"distkv-bench-{os.urandom(4).hex()}"])
    paths = [Path([*root.names, number]) for number in range(PATHS)]
    try:
        client.batch(Set(path, VALUE) for path in paths)
        yield paths
    finally:
        try:
            client.delete_tree(root)
        except (UnreachableError, RequestError) as error:
            raise type(error)(f"{error}; what is left goes by 'distkv client delete -r {root}'") from None


def measure(kind: BenchKind, name: str, paths: Sequence[Path], connections: int, seconds: float) -> Measured:
    """Ask the node at `name` for `seconds`, on each connection the next question when the last one is answered.

    Raises:
        UnreachableError: the node is gone, or does not answer.
        DistkvError: what it refuses with.
    """
    address = read_address(name)
    asked = [_question(kind, path) for path in paths]
    with ExitStack() as stack:
        lines = [stack.enter_context(closing(Connection(address, connect_s=CONNECT_S))) for _ in range(connections)]
        times, elapsed_s = _loop(lines, asked, seconds)
    return _measured(kind, connections, times, elapsed_s)


def _loop(
    lines: Sequence[Connection], asked: Sequence[Question[Mapping[str, object]]], seconds: float
) -> tuple[list[float], float]:
    """The seconds that each reply took, and all of them together; what is under way at the end is not counted."""
    times: list[float] = []
    with selectors.DefaultSelector() as selector:
        by_fileno = {line.fileno(): line for line in lines}
        begun: dict[Connection, float] = {}
        turns = cycle(asked)
        began = time.monotonic()
        for line in lines:
            selector.register(line, selectors.EVENT_READ)
            begun[line] = time.monotonic()
            line.begin(next(turns), begun[line] + REPLY_S)
        while (now := time.monotonic()) < began + seconds:
            for key, _ in selector.select(began + seconds - now):
                line = by_fileno[key.fd]
                answer = line.finish(begun[line] + REPLY_S)
                if isinstance(answer, DistkvError):
                    raise answer
                now = time.monotonic()
                times.append(now - begun[line])
                begun[line] = now
                line.begin(next(turns), now + REPLY_S)
    elapsed_s = time.monotonic() - began
    for line in lines:
        line.finish(began + seconds + REPLY_S)  # else a write could take place after its value was deleted
    if not times:
        raise failures.silent(lines[0].name)
    return times, elapsed_s


def _question(kind: BenchKind, path: Path) -> Question[Mapping[str, object]]:
    fields: dict[str, object] = {"path": list(path.names)}
    if kind is BenchKind.SET:
        fields["value"] = VALUE
    return node_questions.anything(f"{kind}_value", fields, is_read=kind is BenchKind.GET)


def _measured(kind: BenchKind, connections: int, times: list[float], elapsed_s: float) -> Measured:
    times.sort()
    count = len(times)
    p50_ms, p99_ms = (1000 * times[min(count - 1, int(count * share))] for share in (0.5, 0.99))
    return Measured(kind, connections, count, round(count / elapsed_s, 1), round(p50_ms, 3), round(p99_ms, 3))
