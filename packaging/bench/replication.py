"""Three nodes on three Serf agents: how soon a set on one is to be read on another, and how many arrive per second.

Knows: how a network is started.  Does not know how an update travels.

Invariant: a value counts as arrived when a get on the other node showed it, whole.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from bench.figures import quantile, table
from bench.load import Generator, LoadError
from bench.servers import Server, ServerError, distkv, open_servers, serf_agent, serf_member_count
from distkv.client.blocking import Client

NAMES: Final = ("a", "b", "c")
JOINED_S: Final = 30.0
ARRIVED_S: Final = 300.0
POLL_S: Final = 0.001
"""Between two gets on b: so often that the figure is sharp, and so rarely that b has time for its work."""
PAUSE_MAX_S: Final = 0.25
"""Before each set, by chance: more than Serf's gossip interval, so that no set follows its beat."""
EQUAL_POLL_S: Final = 0.02
FAMILY: Final = "r"
TAG: Final = 3
CHECK_S: Final = 0.5


@attrs.frozen
class Latency:
    """From the sending of a set on a until a get on b shows it, in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    resolution_ms: float
    """From one get on b to the next, median: so much later than it was there a value may have been seen."""


@attrs.frozen
class Rate:
    """Many sets on a as fast as it takes them."""

    count: int
    accepted_s: float
    """Until a had answered the last one."""
    arrived_s: float
    """From the first set until b and c hold the same as a."""

    @property
    def per_second(self) -> float:
        """What three nodes take for as long as one likes."""
        return self.count / self.arrived_s


@contextmanager
def open_network(directory: Path) -> Iterator[Mapping[str, Server]]:
    """Three agents as packaged, that see each other, and a node with the default settings beside each.

    Raises:
        ServerError: they do not come together.
    """
    agents: dict[str, Server] = {}
    first: str | None = None
    for name in NAMES:
        agents[name], gossip = serf_agent(directory, f"agent-{name}", first)
        first = first or gossip
    with open_servers(agents):
        for agent in agents.values():
            _wait(partial(_sees_all, agent), f"{agent.name} sees all", JOINED_S)
        nodes = {
            name: distkv(
                directory, name, is_first=name == NAMES[0], options=["--serf", f"127.0.0.1:{agents[name].port}"]
            )
            for name in NAMES
        }
        with open_servers(nodes):
            yield nodes


def measure_latency(nodes: Mapping[str, Server], count: int) -> Latency:
    """One set after another on a, each awaited on b.

    Raises:
        ServerError: one did not arrive.
    """
    chance = random.Random(0)
    found, gaps = [], []
    with _client(nodes["a"]) as a, _client(nodes["b"]) as b:
        for number in range(count):
            time.sleep(chance.uniform(0, PAUSE_MAX_S))
            value = f"{number:08d} {'x' * 91}"
            began = last = time.perf_counter()
            a.set("bench.latency", value)
            while True:
                entry = b.get("bench.latency")
                now = time.perf_counter()
                gaps.append(now - last)
                if entry is not None and entry.value == value:
                    break
                if now - began > ARRIVED_S:
                    raise ServerError(f"set number {number} on a is not on b after {ARRIVED_S:g} s")
                last = now
                time.sleep(POLL_S)
            found.append(1000 * (now - began))
    return Latency(count, median(found), quantile(found, 0.99), max(found), 1000 * median(gaps))


def measure_rate(nodes: Mapping[str, Server], generator: Generator, count: int) -> Rate:
    """Write `count` new entries to a at full speed, and wait for b and c.

    Raises:
        LoadError, ServerError: some did not arrive, or not whole.
    """
    a = nodes["a"]
    began = time.perf_counter()
    load = generator.run(a.protocol, a.port, "fill", depth=32, keys=count, family=FAMILY, tag=TAG)
    if load.failure:
        raise LoadError(f"a: {load.failure}")
    with _client(nodes["a"]) as first, _client(nodes["b"]) as second, _client(nodes["c"]) as third:
        wanted = first.state()["digest"]
        _wait(
            lambda: all(client.state()["digest"] == wanted for client in (second, third)),
            "all hold the same", ARRIVED_S, EQUAL_POLL_S,
        )  # fmt: skip
        arrived_s = time.perf_counter() - began
    for name in NAMES[1:]:
        node = nodes[name]
        seen = generator.run(
            node.protocol, node.port, "get", depth=32, seconds=CHECK_S, keys=count, family=FAMILY, tag=TAG
        )
        if seen.failure:
            raise LoadError(f"{name}: {seen.failure}")
    return Rate(count, load.seconds, arrived_s)


def replication_table(latency: Latency, rate: Rate) -> str:
    """Both measurements, and the resolution of the first."""
    times = table(
        ["set on a, read on b", "p50 ms", "p99 ms", "max ms"],
        [[f"{latency.count} sets", f"{latency.p50_ms:.1f}", f"{latency.p99_ms:.1f}", f"{latency.max_ms:.1f}"]],
    )
    speeds = table(
        ["sets on a", "a took them in s", "all had them after s", "sets/s on three nodes"],
        [[f"{rate.count:,}", f"{rate.accepted_s:.2f}", f"{rate.arrived_s:.2f}", f"{rate.per_second:,.0f}"]],
    )
    return f"{times}\nresolution: b was asked every {latency.resolution_ms:.1f} ms\n\n{speeds}"


def _sees_all(agent: Server) -> bool:
    return serf_member_count(agent) == len(NAMES)


def _client(node: Server) -> Client:
    return Client([("127.0.0.1", node.port)])


def _wait(condition: Callable[[], bool], what: str, deadline_s: float, pause_s: float = 0.05) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"after {deadline_s:g} s it does not hold that {what}")
        time.sleep(pause_s)
