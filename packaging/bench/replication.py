"""Three nodes on three Serf agents: how soon a set on one is told on another, and how many arrive per second.

Knows: how a network is started.  Does not know how an update travels.

Invariant: a value counts as arrived when a watch on the other node told it, whole.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from typing import Final, TypeAlias

import attrs

from bench.figures import quantile, table
from bench.load import Generator, LoadError
from bench.servers import Server, ServerError, distkv, open_servers, serf_agent, serf_member_count
from distkv.client.blocking import Client
from distkv.client.watch import Change, Resync, UpToDate, WatchEvent
from distkv.errors import DistkvError

NAMES: Final = ("a", "b", "c")
JOINED_S: Final = 30.0
ARRIVED_S: Final = 300.0
PAUSE_MAX_S: Final = 0.25
"""Before each set, by chance: more than Serf's gossip interval, so that no set follows its beat."""
EQUAL_POLL_S: Final = 0.02
FAMILY: Final = "r"
TAG: Final = 3
CHECK_S: Final = 0.5
WATCHED: Final = "bench.latency"

Arrivals: TypeAlias = SimpleQueue[tuple[float, WatchEvent | DistkvError]]
"""What a watch told, and when it came; an error ends it."""


@attrs.frozen
class Latency:
    """From the sending of a set on a until a watcher on b has it, in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    resyncs: int
    """How often the watcher was told to begin anew."""


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


@attrs.frozen
class Network:
    """Three nodes, and the agents beside them, by the same names."""

    nodes: Mapping[str, Server]
    agents: Mapping[str, Server]


@contextmanager
def open_network(directory: Path) -> Iterator[Network]:
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
            wait(partial(_sees_all, agent), f"{agent.name} sees all", JOINED_S)
        nodes = {
            name: distkv(
                directory, name, is_first=name == NAMES[0], options=["--serf", f"127.0.0.1:{agents[name].port}"]
            )
            for name in NAMES
        }
        with open_servers(nodes):
            yield Network(nodes, agents)


def measure_latency(nodes: Mapping[str, Server], count: int) -> Latency:
    """One set after another on a, each awaited by a watcher on b.

    Raises:
        ServerError: one did not arrive, or another value did.
    """
    chance = random.Random(0)
    found, resyncs = [], 0
    arrivals: Arrivals = SimpleQueue()
    # It ends with its node at the latest.
    threading.Thread(target=_watch, args=(nodes["b"], count, arrivals), daemon=True).start()
    if not isinstance(_next(arrivals)[1], UpToDate):
        raise ServerError(f"{WATCHED} is there before it was set")
    with client_of(nodes["a"]) as a:
        for number in range(count):
            time.sleep(chance.uniform(0, PAUSE_MAX_S))
            value = f"{number:08d} {'x' * 91}"
            began = time.perf_counter()
            a.set(WATCHED, value)
            arrived, event = _next(arrivals)
            while not isinstance(event, Change):
                resyncs += isinstance(event, Resync)
                arrived, event = _next(arrivals)
            if event.value != value:
                raise ServerError(f"set number {number} on a is {event.value!r} on b")
            found.append(1000 * (arrived - began))
    return Latency(count, median(found), quantile(found, 0.99), max(found), resyncs)


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
    with client_of(nodes["a"]) as first, client_of(nodes["b"]) as second, client_of(nodes["c"]) as third:
        wanted = first.state()["digest"]
        wait(
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
    """Both measurements."""
    times = table(
        ["set on a, told on b", "p50 ms", "p99 ms", "max ms", "resyncs"],
        [
            [
                f"{latency.count} sets", f"{latency.p50_ms:.1f}", f"{latency.p99_ms:.1f}", f"{latency.max_ms:.1f}",
                str(latency.resyncs),
            ]
        ],
    )  # fmt: skip
    speeds = table(
        ["sets on a", "a took them in s", "all had them after s", "sets/s on three nodes"],
        [[f"{rate.count:,}", f"{rate.accepted_s:.2f}", f"{rate.arrived_s:.2f}", f"{rate.per_second:,.0f}"]],
    )
    return f"{times}\n\n{speeds}"


def _watch(node: Server, count: int, arrivals: Arrivals) -> None:
    """Put what is told there into the queue, until so many changes came."""
    try:
        with client_of(node) as client:
            for event in client.watch_events(WATCHED, fetch=True):
                arrivals.put((time.perf_counter(), event))
                count -= isinstance(event, Change)
                if not count:
                    return
    except DistkvError as error:
        arrivals.put((time.perf_counter(), error))


def _next(arrivals: Arrivals) -> tuple[float, WatchEvent]:
    try:
        arrived, event = arrivals.get(timeout=ARRIVED_S)
    except Empty:
        raise ServerError(f"the watcher was told nothing for {ARRIVED_S:g} s") from None
    if isinstance(event, DistkvError):
        raise ServerError(f"the watch on b ended: {event}")
    return arrived, event


def _sees_all(agent: Server) -> bool:
    return serf_member_count(agent) == len(NAMES)


def client_of(node: Server) -> Client:
    """Who asks this node, and no other."""
    return Client([("127.0.0.1", node.port)])


def wait(condition: Callable[[], bool], what: str, deadline_s: float, pause_s: float = 0.05) -> None:
    """Until it holds.

    Raises:
        ServerError: it does not in time.
    """
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"after {deadline_s:g} s it does not hold that {what}")
        time.sleep(pause_s)
