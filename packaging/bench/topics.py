"""Topics: beside this node's own sets and Redis's streams on one server, and beside held sets and JetStream on three.

Knows: which cells there are, and what is asked of whom.  Does not know how a message is checked (`topics.c`).

Invariant: as for the rounds: one server, or group of servers, at a time is under load, and all are at rest before the
next. No run uses the topic of another one.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import attrs

from bench.figures import OURS, ratio_of, table
from bench.load import Generator, Load
from bench.network import wait
from bench.rounds import KEYS, WRITTEN, Sample, turned, wait_rest
from bench.servers import Server, nats
from bench.tokens import TAGS, Group

SETS: Final = "distkv-set"
"""The same nodes, which are asked to set values."""
STREAMS: Final = "redis-stream"
"""XADD, with `appendfsync always`."""
JETSTREAM: Final = "jetstream"
NAMES: Final = ("ja", "jb", "jc")
COPIES: Final = 2
TOLD_AIM: Final = 4.0
STREAM_S: Final = 30.0
SYNC: Final = (
    "jetstream has three copies and answers when two servers have written the message to their files. It syncs these\n"
    "to the disk every 2 minutes (sync_interval, the default), distkv before each answer."
)


@attrs.frozen
class TopicCell:
    """One way to put, or to get what waits."""

    verb: Literal["put", "get"]
    connections: int
    depth: int
    """Puts under way on each connection; of the sets beside `get`, too."""
    copies: int = 1

    @property
    def name(self) -> str:
        copied = f" of {self.copies}" if self.copies > 1 else ""
        return f"{self.verb} {self.connections}x{self.depth}{copied}"


ALONE_CELLS: Final = (TopicCell("put", 1, 1), TopicCell("put", 32, 1), TopicCell("put", 1, 32), TopicCell("get", 1, 32))
COPIED_CELLS: Final = (TopicCell("put", 2, 16, COPIES),)
"""A connection may have 16 sets under way that wait for other nodes."""


def takes_part(name: str, cell: TopicCell) -> bool:
    """Streams are only put into, and one at a time: nothing else is aimed at."""
    return name != STREAMS or cell.name == "put 1x1"


def run_topics(
    groups: Mapping[str, Group],
    generator: Generator,
    cells: Sequence[TopicCell],
    *,
    rounds: int,
    seconds: float,
    messages: int,
    say: Callable[[str], None],
) -> list[Sample]:
    """Measure every cell of every round; so many messages are got.

    Raises:
        LoadError: a server went away, or is silent.
    """
    samples: list[Sample] = []
    servers = [server for group in groups.values() for server in group.all]
    tags = random.sample(range(2, TAGS), rounds * len(cells) * len(groups))
    for number in range(rounds):
        say(f"topics, round {number + 1} of {rounds}")
        for cell in cells:
            for name in turned([name for name in groups if takes_part(name, cell)], number):
                before = groups[name].cpu_s()
                load = _run(generator, name, groups[name].asked, cell, seconds, messages, tags.pop())
                wait_rest(servers)
                samples.append(Sample(number, cell.name, name, load, groups[name].cpu_s() - before))
    return samples


def _run(
    generator: Generator, name: str, asked: Server, cell: TopicCell, seconds: float, messages: int, tag: int
) -> Load:
    if name == SETS:
        return generator.run(
            "held2" if cell.copies > 1 else asked.protocol, asked.port, "set", connections=cell.connections,
            depth=cell.depth, seconds=seconds, keys=KEYS, family=WRITTEN, tag=tag,
        )  # fmt: skip
    return generator.put(
        asked.protocol, asked.port, cell.verb, connections=cell.connections, depth=cell.depth, seconds=seconds,
        count=messages, copies=cell.copies, tag=tag,
    )  # fmt: skip


# -- from node to node --------------------------------------------------------------------------------------------


@attrs.frozen
class Told:
    """One round: from a put on one node until a get that waits on another one is answered, and the same of a set and a
    watcher."""

    got: Load
    watched: Load

    @property
    def failure(self) -> str:
        """Why it is not to be used; empty when it is."""
        return self.got.failure or self.watched.failure


def run_told(generator: Generator, nodes: Sequence[Server], *, rounds: int, seconds: float) -> list[Told]:
    """Tell the second node of what happens on the first one.

    Raises:
        LoadError: a server went away, is silent, or did not deliver everything.
    """
    found = []
    writer, other = nodes[:2]
    for tag in random.sample(range(2, TAGS), rounds):
        got = generator.put(
            writer.protocol, writer.port, "tell", connections=1, depth=1, seconds=seconds, count=other.port,
            copies=COPIES, tag=tag,
        )  # fmt: skip
        wait_rest(nodes)
        watched = generator.fan_out(
            writer.protocol, writer.port, watchers=1, depth=1, seconds=seconds, tag=tag % 10_000, watched=[other.port],
            paths=1, pause_s=0.02,
        )  # fmt: skip
        wait_rest(nodes)
        found.append(Told(got, watched))
    return found


def told_table(found: Sequence[Told]) -> str:
    """Both ways, and how many times as long that of topics takes."""
    rows = [
        [name, f"{median(load.p50_us for load in loads):,.0f}", f"{median(load.p99_us for load in loads):,.0f}"]
        for name, loads in (
            ("put, waiting get", [one.got for one in found]),
            ("set, watch event", [one.watched for one in found]),
        )
    ]
    times = ratio_of(
        {number: one.got.p50_us for number, one in enumerate(found)},
        {number: max(one.watched.p50_us, 1) for number, one in enumerate(found)},
    )
    assert times is not None
    verdict = "met" if times.median <= TOLD_AIM else "missed"
    line = f"put to set: {times.median:.2f} x ({times.low:.2f} - {times.high:.2f}), <= {TOLD_AIM:g} x: {verdict}"
    return "\n".join([table(["way", "p50 us", "p99 us"], rows), line])


# -- JetStream ----------------------------------------------------------------------------------------------------


def jetstreams(directory: Path) -> dict[str, Server]:
    """Three NATS servers that keep streams together."""
    return nats(directory, NAMES, is_keeping=True)


def stream_leader(servers: Mapping[str, Server]) -> Server:
    """Begin the stream of all messages on all of them; who carries it out.

    Raises:
        ServerError: they do not come together.
    """
    leaders: list[str] = []

    def has_begun() -> bool:
        leaders.extend(filter(None, [_begin_stream(next(iter(servers.values())))]))
        return bool(leaders)

    wait(has_begun, "the stream has a leader", STREAM_S, 0.5)
    return servers[leaders[0]]


def _begin_stream(server: Server) -> str | None:
    """The name of its leader; None: it has none now."""
    wish = {"name": "bench", "subjects": ["bench.>"], "storage": "file", "num_replicas": len(NAMES)}
    body = json.dumps(wish).encode()
    with closing(socket.create_connection(("127.0.0.1", server.port), 2.0)) as stream:
        lines = stream.makefile("rb")
        lines.readline()
        stream.sendall(b'CONNECT {"verbose":false}\r\nSUB i 1\r\n')
        stream.sendall(b"PUB $JS.API.STREAM.CREATE.bench i %d\r\n%b\r\n" % (len(body), body))
        try:
            while not lines.readline().startswith(b"MSG "):
                pass
            answer: Any = json.loads(lines.readline())
        except OSError:  # it does not answer before they have come together
            return None
    leader: str | None = answer.get("cluster", {}).get("leader")
    return leader


def groups_of(node: Server, stream: Server | None = None) -> dict[str, Group]:
    """A node that is asked about topics and for sets, and Redis."""
    groups = {OURS: Group(node), SETS: Group(node)}
    return groups if stream is None else groups | {STREAMS: Group(stream)}
