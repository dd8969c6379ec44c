"""Links: how soon a set on one node is told on another, how many arrive per second, what they cost, what was missed.

Knows: the ways in which changes travel, and which of them are measured beside which.  Does not know how a network is
started (`network`), nor what becomes of the figures (`links_tables`).

Invariant: what was measured arrived: every node holds the same in the end, and every watcher was told every value,
whole and in order; else it raises, and there are no figures.  One network is up at a time, and each is new.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from bench.agents import measure_events, watched_queues
from bench.load import Generator, Load, LoadError
from bench.network import NAMES, Network, counters_of, open_agents, open_network, wait_equal
from bench.rounds import Sample, turned, wait_rest
from bench.servers import Server, ServerError, nats, open_servers

LINKED, GOSSIP, NATS, SERF = "distkv", "links.follow: false", "nats", "serf"
"""The ways of a message: nodes with links, the same without, NATS servers with routes, and bare Serf agents."""
WAYS: Final = (LINKED, GOSSIP, NATS, SERF)
TOLD: Final = "told"
PAUSE_S: Final = 0.125
"""Before each set, on average: twice that is more than Serf's gossip interval, so that no set follows its beat."""

ALONE, ONE, TWO, TWO_GOSSIP = "alone", "one follower", "two followers", "links.follow: false"
"""The networks that take many sets: how many nodes there are besides the writer."""
OTHERS: Final = {ALONE: 0, ONE: 1, TWO: 2, TWO_GOSSIP: 2}
CONNECTIONS, DEPTH = 8, 32
"""On which the sets come."""
SAMPLE_PAUSE_S: Final = 0.025
CHECK_S: Final = 0.5
FAMILY: Final = "r"
TAG: Final = 3
SAMPLE_TAG: Final = 9
CAUGHT_POLL_S: Final = 0.05

STEADY_PER_S: Final = 1000
PACE_PER_S: Final = 1000
"""At the least: the pauses are a little shorter, as they are random."""
PACE_DEPTH: Final = 400


@attrs.frozen
class Cost:
    """Processor times of one set, in microseconds, with the work that was put off."""

    writer_us: float
    follower_us: float
    """The mean of all followers; 0 when there are none."""
    agent_us: float
    """All agents together."""


@attrs.frozen
class Burst:
    """Sets on one node: at a rate that every network can take, and then as fast as this one takes them."""

    round: int
    network: str
    count: int
    accepted_s: float
    """Until the writer had answered the last one."""
    arrived_s: float
    """From the first set until all nodes hold the same."""
    steady: Cost
    """At the rate that is the same in every network. At full speed the slower network writes more at once to its disk,
    so that a set costs less there."""
    full: Cost
    linked: int
    pulled: int
    """How many events came to the followers so."""
    queue_longest: int
    queue_looks: int
    """Of all agents."""
    lag_p50_ms: float
    lag_p99_ms: float
    """Of sets that were made now and then meanwhile, from their sending until a watcher on another node was told."""
    lag_count: int

    @property
    def per_second(self) -> float:
        """What the network takes for as long as one likes."""
        return self.count / self.arrived_s


@attrs.frozen
class CatchUp:
    """A node that was away gets what it missed. Times are from the start of its process.

    A node serves when it has got what it knew to be missing. So what its start takes is measured before, with nothing
    missed.
    """

    round: int
    network: str
    count: int
    start_s: float
    """Until it serves, when it missed nothing."""
    ready_s: float
    """Until it serves, now."""
    whole_s: float
    """Until it holds what the others hold."""
    linked: int
    linked_again: int
    pulled: int
    pulled_again: int

    @property
    def caught_s(self) -> float:
        """Without its start."""
        return self.whole_s - self.start_s


@attrs.frozen
class Paced:
    """One path, written many times a second on one node, and watched on two others."""

    seconds: float
    load: Load


def run_told(
    generator: Generator, directory: Path, *, rounds: int, seconds: float, say: Callable[[str], None]
) -> list[Sample]:
    """One set after another on a, each awaited by a watcher on b, in every way; `load` has the times.

    Raises:
        LoadError, ServerError: one did not arrive, or another value did.
    """
    samples: list[Sample] = []
    for number in range(rounds):
        say(f"told, round {number + 1} of {rounds}")
        for way in turned(WAYS, number):
            load = _told(generator, directory / f"told-{number}-{WAYS.index(way)}", way, seconds)
            samples.append(Sample(number, TOLD, way, load, 0.0))
    return samples


def run_bursts(
    generator: Generator,
    directory: Path,
    *,
    rounds: int,
    steady_s: float,
    count: int,
    say: Callable[[str], None],
) -> list[Burst]:
    """In every network: write on a node at a steady rate for so long, and then so many new entries at full speed.

    Raises:
        LoadError, ServerError: some did not arrive, or not whole.
    """
    bursts: list[Burst] = []
    networks = list(OTHERS)
    for number in range(rounds):
        say(f"bursts, round {number + 1} of {rounds}")
        for name in turned(networks, number):
            place = directory / f"burst-{number}-{networks.index(name)}"
            with open_network(place, NAMES[: OTHERS[name] + 1], is_linked=name != TWO_GOSSIP) as network:
                steady = _steady(generator, network, steady_s)
                bursts.append(_burst(generator, network, number, name, count, steady))
    return bursts


def run_catch_ups(
    generator: Generator, directory: Path, *, rounds: int, count: int, say: Callable[[str], None]
) -> list[CatchUp]:
    """Write so many new entries on a while b is away, with links and without.

    Raises:
        LoadError, ServerError: some did not arrive.
    """
    found: list[CatchUp] = []
    networks = [TWO, TWO_GOSSIP]
    for number in range(rounds):
        say(f"catching up, round {number + 1} of {rounds}")
        for name in turned(networks, number):
            place = directory / f"away-{number}-{networks.index(name)}"
            with open_network(place, is_linked=name != TWO_GOSSIP) as network:
                found.append(_catch_up(generator, network, number, name, count))
    return found


def measure_paced(generator: Generator, directory: Path, *, seconds: float) -> Paced:
    """Write one path many times a second on a, and watch it on b and c.

    Raises:
        LoadError, ServerError: a watcher was not told every value in order.
    """
    with open_network(directory / "paced") as network:
        writer, *others = network.nodes.values()
        _, before = _brought(others)
        load = generator.fan_out(
            writer.protocol, writer.port, watchers=len(others), depth=PACE_DEPTH, seconds=seconds, tag=SAMPLE_TAG,
            watched=[node.port for node in others], paths=1, pause_s=0.95 / PACE_PER_S,
        )  # fmt: skip
        _, pulled = _brought(others)
    what = f"one path ({pulled - before} events came by pulls, which leave out what is superseded)"
    return Paced(seconds, _whole(load, what))


# -- inside -------------------------------------------------------------------------------------------------------


def _told(generator: Generator, directory: Path, way: str, seconds: float) -> Load:
    with _way(directory, way) as servers:
        writer, listener, *_ = servers
        if way == SERF:
            return measure_events(writer, listener, seconds, PAUSE_S)
        load = generator.fan_out(
            writer.protocol, writer.port, watchers=1, depth=1, seconds=seconds, tag=TAG, watched=[listener.port],
            pause_s=PAUSE_S,
        )  # fmt: skip
        return _whole(load, way)


@contextmanager
def _way(directory: Path, way: str) -> Iterator[Sequence[Server]]:
    """Three servers, among which a message travels so."""
    if way == NATS:
        with open_servers(nats(directory, NAMES), is_cluster=True) as servers:
            yield list(servers.values())
    elif way == SERF:
        with open_agents(directory) as servers:
            yield list(servers.values())
    else:
        with open_network(directory, is_linked=way == LINKED) as network:
            yield list(network.nodes.values())


@attrs.define
class _Meter:
    """The processor time of a network, from the moment at which it was made."""

    network: Network
    before: list[float] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.before = self._used()

    def cost(self, count: int) -> Cost:
        """Of one set of so many, when the nodes are at rest."""
        wait_rest(list(self.network.nodes.values()))
        used = [1e6 * (now - before) / count for now, before in zip(self._used(), self.before, strict=True)]
        size = len(self.network.nodes)
        return Cost(used[0], sum(used[1:size]) / max(size - 1, 1), sum(used[size:]))

    def _used(self) -> list[float]:
        """Of the nodes, of which the writer is the first, and then of the agents."""
        return [server.cpu_s() for each in (self.network.nodes, self.network.agents) for server in each.values()]


def _steady(generator: Generator, network: Network, seconds: float) -> Cost:
    nodes = list(network.nodes.values())
    wait_rest(nodes)
    meter = _Meter(network)
    load = generator.fan_out(
        nodes[0].protocol, nodes[0].port, watchers=0, depth=PACE_DEPTH, seconds=seconds, tag=TAG,
        pause_s=1 / STEADY_PER_S,
    )  # fmt: skip
    wait_equal(nodes)
    return meter.cost(_whole(load, nodes[0].name).checked)


def _burst(generator: Generator, network: Network, number: int, name: str, count: int, steady: Cost) -> Burst:
    nodes = list(network.nodes.values())
    writer, *others = nodes
    meter = _Meter(network)
    linked, pulled = _brought(others)
    watched = [node.port for node in others or nodes]
    with (
        watched_queues(list(network.agents.values())) as queues,
        generator.sampling(writer.port, watched, tag=SAMPLE_TAG, pause_s=SAMPLE_PAUSE_S) as sampling,
    ):
        began = time.perf_counter()
        load = _fill(generator, writer, count)
        sampling.stop()
        wait_equal(nodes)
        arrived_s = time.perf_counter() - began
        lags = _whole(sampling.end(), "samples")
    full = meter.cost(count)
    linked_after, pulled_after = _brought(others)
    for node in others:
        _check(generator, node, count)
    return Burst(
        number,
        name,
        count,
        load.seconds,
        arrived_s,
        steady,
        full,
        linked=linked_after - linked,
        pulled=pulled_after - pulled,
        queue_longest=queues.longest,
        queue_looks=queues.looks,
        lag_p50_ms=lags.p50_us / 1000,
        lag_p99_ms=lags.p99_us / 1000,
        lag_count=lags.ops,
    )


def _catch_up(generator: Generator, network: Network, number: int, name: str, count: int) -> CatchUp:
    nodes = network.nodes
    away = nodes["b"]
    away.end(signal.SIGTERM)
    wait_rest([nodes["a"], nodes["c"]])
    start_s = away.start()
    wait_equal(list(nodes.values()))
    away.end(signal.SIGTERM)
    _fill(generator, nodes["a"], count)
    wait_equal([nodes["a"], nodes["c"]])
    wait_rest([nodes["a"], nodes["c"]])
    began = away.launch()
    away.wait_ready()
    ready_s = time.perf_counter() - began
    wait_equal([nodes["a"], away], CAUGHT_POLL_S)
    whole_s = time.perf_counter() - began
    counters = counters_of(away)
    _check(generator, away, count)
    return CatchUp(
        number,
        name,
        count,
        start_s,
        ready_s,
        whole_s,
        linked=counters["events_linked"],
        linked_again=counters["events_linked_again"],
        pulled=counters["events_pulled"],
        pulled_again=counters["events_pulled_again"],
    )


def _fill(generator: Generator, node: Server, count: int) -> Load:
    load = generator.run(
        node.protocol, node.port, "fill", connections=CONNECTIONS, depth=DEPTH, keys=count, family=FAMILY, tag=TAG
    )
    return _whole(load, node.name)


def _check(generator: Generator, node: Server, count: int) -> None:
    """Whether the node shows what was written, byte for byte."""
    load = generator.run(
        node.protocol, node.port, "get", depth=DEPTH, seconds=CHECK_S, keys=count, family=FAMILY, tag=TAG
    )
    _whole(load, node.name)


def _whole(load: Load, what: str) -> Load:
    if load.failure:
        raise LoadError(f"{what}: {load.failure}")
    if load.resyncs:
        raise ServerError(f"{what}: watchers were told {load.resyncs} times to begin anew")
    return load


def _brought(nodes: Sequence[Server]) -> tuple[int, int]:
    """How many events came to them by links, and by pulls."""
    counted = [counters_of(node) for node in nodes]
    return sum(each["events_linked"] for each in counted), sum(each["events_pulled"] for each in counted)
