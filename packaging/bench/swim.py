"""The transport swim, with a secret, beside Serf agents: what replication takes, with links and without, and at rest.

Knows: which networks are measured beside which.  Does not know how a network is started (`network`), nor what becomes
of the figures (`swim_tables`).

Invariant: what was measured arrived: every node holds the same in the end; else it raises, and there are no figures.
One network is up at a time, and each is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import attrs

from bench.figures import quantile
from bench.heard import measure_idle, measure_rate
from bench.load import Generator, Load, LoadError
from bench.network import UNLINKED, Network, client_of, counters_of, open_network, open_swim, wait_equal
from bench.rounds import HELD_CELLS, KEYS, LOADED_TAG, WRITTEN, turned, wait_rest
from bench.servers import Server

SWIM, SERF = "swim", "serf"
"""The ways in which nodes find each other: without an agent, and with one beside each."""
WAYS: Final = (SWIM, SERF)
TOLD: Final = "told"
"""A set, until a watcher on another node has it. The other cells are sets that three nodes hold."""
LINKED_CELLS: Final = (TOLD, *(cell.name for cell in HELD_CELLS))
PAUSE_S: Final = 0.125
TWELVE: Final = tuple("abcdefghijkl")
TWELVE_SETTINGS: Final = "ping: {clock: 1}\n" + UNLINKED
PER_SECOND: Final = 300
SOON_S: Final = 1.0


@attrs.frozen
class Linked:
    """Three nodes with links, in one round."""

    round: int
    way: str
    loads: Mapping[str, Load]
    """By cell."""
    gossiped: int
    """Events that came by gossip all the same."""


@attrs.frozen
class Idle:
    """Three nodes without links, in one round: from the answer to a set until a watcher on another node has it."""

    round: int
    way: str
    delays_ms: Sequence[float]


@attrs.frozen
class Twelve:
    """Twelve nodes without links: at rest, and while one of them takes sets."""

    rest_s: float
    rest_bytes_per_s: Sequence[float]
    """What each node sent by UDP."""
    count: int
    written_s: float
    """Until the last one was answered."""
    told: int
    """How many were told, at all watchers: one on each other node."""
    told_soon: int
    """Of them, within a second of the answer."""
    gossiped: int
    """How many events came to the others by gossip, and were new."""
    pulled: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    writer_bytes_per_s: float
    """What the node that took the sets sent by UDP meanwhile."""
    busy: float
    """The part of a processor that the generator used."""

    @property
    def soon(self) -> float:
        return self.told_soon / self.told

    @property
    def by_gossip(self) -> float:
        return self.gossiped / self.told

    @property
    def soon_by_gossip(self) -> float:
        """The share that was both, at the least: those that came late and those that were pulled may be others."""
        return max(self.told_soon + min(self.gossiped, self.told) - self.told, 0) / self.told


def run_linked(
    generator: Generator, directory: Path, *, rounds: int, told_s: float, held_s: float, say: Callable[[str], None]
) -> list[Linked]:
    """With links: sets that a watcher waits for, and sets that three nodes hold.

    Raises:
        LoadError, ServerError: one did not arrive, or another value did.
    """
    found: list[Linked] = []
    for number, way, place in _turns(directory / "linked", rounds, say):
        with _open(place, way) as network:
            found.append(_linked(generator, network, number, way, told_s, held_s))
    return found


def run_idle(directory: Path, *, rounds: int, seconds: float, say: Callable[[str], None]) -> list[Idle]:
    """Without links: one set after another on a, each awaited by a watcher on b.

    Raises:
        ServerError: one did not arrive, or another value did.
    """
    found: list[Idle] = []
    for number, way, place in _turns(directory / "idle", rounds, say):
        with _open(place, way, is_linked=False) as network:
            writer, listener, _ = network.nodes.values()
            heard = measure_idle(writer, listener, seconds=seconds, pause_s=PAUSE_S)
            wait_equal(list(network.nodes.values()))
            found.append(Idle(number, way, [1000 * delay for delay in heard.delays_s]))
    return found


def measure_twelve(directory: Path, *, rest_s: float, seconds: float) -> Twelve:
    """What twelve nodes send at rest, and how soon they hear what one of them is told to set, without links.

    Raises:
        ServerError: they did not come together, or a set did not arrive.
    """
    with open_swim(directory / "twelve", TWELVE, config=TWELVE_SETTINGS) as network:
        nodes = list(network.nodes.values())
        wait_rest(nodes)
        began, before = time.perf_counter(), [_sent_bytes(node) for node in nodes]
        time.sleep(rest_s)
        rest_s = time.perf_counter() - began
        rates = [(_sent_bytes(node) - first) / rest_s for node, first in zip(nodes, before, strict=True)]
        writer, *others = nodes
        gossiped, pulled = _came(others)
        sent = _sent_bytes(writer)
        heard = measure_rate(writer, others, seconds=seconds, per_second=PER_SECOND)
        writer_bytes = _sent_bytes(writer) - sent
        wait_equal(nodes)
        gossiped_after, pulled_after = _came(others)
    delays = heard.delays_s
    return Twelve(
        rest_s,
        rates,
        heard.count,
        heard.seconds,
        told=len(delays),
        told_soon=sum(delay <= SOON_S for delay in delays),
        gossiped=gossiped_after - gossiped,
        pulled=pulled_after - pulled,
        p50_ms=1000 * quantile(delays, 0.5),
        p99_ms=1000 * quantile(delays, 0.99),
        longest_ms=1000 * max(delays),
        writer_bytes_per_s=writer_bytes / heard.seconds,
        busy=heard.busy,
    )


# -- inside -------------------------------------------------------------------------------------------------------


def _turns(directory: Path, rounds: int, say: Callable[[str], None]) -> Iterator[tuple[int, str, Path]]:
    for number in range(rounds):
        say(f"swim, {directory.name}, round {number + 1} of {rounds}")
        for way in turned(WAYS, number):
            yield number, way, directory / f"{number}-{way}"


def _open(directory: Path, way: str, *, is_linked: bool = True) -> AbstractContextManager[Network]:
    if way == SERF:
        return open_network(directory, is_linked=is_linked)
    return open_swim(directory, config="" if is_linked else UNLINKED)


def _linked(generator: Generator, network: Network, number: int, way: str, told_s: float, held_s: float) -> Linked:
    nodes = list(network.nodes.values())
    writer, listener, _ = nodes
    before, _ = _came(nodes)
    loads = {
        TOLD: generator.fan_out(
            writer.protocol, writer.port, watchers=1, depth=1, seconds=told_s, tag=LOADED_TAG,
            watched=[listener.port], pause_s=PAUSE_S,
        )
    }  # fmt: skip
    for tag, cell in enumerate(HELD_CELLS, LOADED_TAG + 1):
        wait_rest(nodes)
        loads[cell.name] = generator.run(
            "held", writer.port, cell.verb, connections=cell.connections, depth=cell.depth, seconds=held_s, keys=KEYS,
            family=WRITTEN, tag=tag,
        )  # fmt: skip
    wait_equal(nodes)
    for cell_name, load in loads.items():
        if load.failure or load.resyncs:
            raise LoadError(f"{way}, {cell_name}: {load.failure or 'a watcher was told to begin anew'}")
    after, _ = _came(nodes)
    return Linked(number, way, loads, after - before)


def _came(nodes: Sequence[Server]) -> tuple[int, int]:
    """How many events that were new came to them by gossip, and by pulls."""
    counted = [counters_of(node) for node in nodes]
    return (
        sum(each["events_gossiped"] - each["events_gossiped_again"] for each in counted),
        sum(each["events_pulled"] - each["events_pulled_again"] for each in counted),
    )


def _sent_bytes(node: Server) -> int:
    with client_of(node) as client:
        state: Mapping[str, Any] = client.state()
    return int(state["transport"]["sent_bytes"])
