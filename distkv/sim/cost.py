"""What a fleet costs by its size: messages, bytes, and how soon it agrees.

Knows: one fixed course (start, one more, rest, one write, many writes, half of the fleet cut off, its return) and
what is counted in each part.  Does not know what is right, but that all end alike.

Invariant: the same size gives the same figures, on every machine.

Agents carry what was measured of real ones (docs/serf): few packets per second, and one in a hundred misses a node. A
message needs a round of gossip for each power of four agents. Peers need up to 10 ms for each part of an answer, and
for each item on a link. All nodes follow others, as servers do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import Final

import attrs

from distkv.core.client_writes import LocalSet
from distkv.core.ready import FollowTold, Input, PeerAnswered, Ready
from distkv.model.event import Link, NodeName
from distkv.model.path import Path
from distkv.model.tick_ranges import count, joined
from distkv.sim.directories import prepare_directories
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host, Process
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import Observer
from distkv.sim.rules.alike import not_at_rest, show_the_same
from distkv.wire.message import EventBatch, Message, Ping
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

CLOCK_MS: Final = 5000
LOSS: Final = 0.01
ROUND_MS: Final = 200
"""Serf's `gossip_interval`; in each, an agent tells three others."""
COPIES: Final = 4
"""Serf's `retransmit_mult`: an agent sends each message this many times, and again for each power of ten agents."""
STEP_MS: Final = 100
"""How often is looked whether all are alike."""
PATIENCE_MS: Final = 180_000
WRITES: Final = 100
WRITERS: Final = 5
WRITES_MS: Final = 10_000
CALM_CLOCKS: Final = 12
REST_CLOCKS: Final = 24
SPLIT_CLOCKS: Final = 12
DOUBTS_MS: Final = 5000
"""How long agents of a small fleet need to see that others are gone; more with each power of ten."""
VALUE: Final = pack_value("x" * 98)
"""100 bytes."""

FIGURES: Final[dict[str, str]] = {
    "start_s": "start of all with their data: all ready and alike after, s",
    "start_kib": "start of all: TCP per node, KiB",
    "start_follows": "start of all: follows that a node begins, at most",
    "join_s": "one more joins: all ready and alike after, s",
    "join_kib": "one more joins: its TCP, KiB",
    "join_follows": "one more joins: follows that each other node begins",
    "rest_follows": "rest: nodes that a node follows, at most",
    "rest_followers": "rest: connections on which a node is followed, at most",
    "rest_links_bytes": "rest: links, bytes/s that reach a node",
    "rest_pings": "rest: pings per clock",
    "rest_silence": "rest: longest time without a ping, clocks",
    "rest_heard_bytes": "rest: gossip that a node hears, bytes/s",
    "rest_sent_bytes": "rest: gossip that its agent sends, bytes/s",
    "write_s": "one write: all alike after, s",
    "writes_s": f"{WRITES} writes in {WRITES_MS // 1000} s: all alike after the last, s",
    "writes_packets": f"{WRITES} writes: packets of gossip, pings and infos among them",
    "writes_gossip_kib": f"{WRITES} writes: gossip that a node hears, KiB",
    "writes_kib": f"{WRITES} writes: TCP per node, but for links, KiB",
    "writes_links_kib": f"{WRITES} writes: links per node, KiB",
    "writes_frames": f"{WRITES} writes: items on links, for each write",
    "writes_steps": f"{WRITES} writes: steps over links to the farthest node, mean",
    "writes_steps_max": f"{WRITES} writes: steps over links to the farthest node, at most",
    "writes_again_percent": f"{WRITES} writes: events that crossed a link again, %",
    "writes_in_vain_percent": f"{WRITES} writes: events on links that were held already, %",
    "split_pings": "half cut off: pings in one half, per clock",
    "split_pings_other": "half cut off: pings in the other half, per clock",
    "heal_clocks": f"heal, {WRITES} writes on each side: all alike after, clocks",
    "heal_kib": "heal: TCP per node, but for links, KiB",
    "heal_busiest_kib": "heal: TCP of the busiest node, but for links, KiB",
    "heal_links_kib": "heal: links per node, KiB",
    "heal_linked_percent": "heal: missed events that links brought, %",
    "heal_again_percent": "heal: missed events that came more than once, %",
}
"""What is measured, in words for a table; bytes are those of payloads."""


@attrs.define
class CostCounts:
    """What was counted in one part of the course, over all nodes."""

    packets: int = 0
    packet_bytes: int = 0
    """Of what agents were told to send, once each."""
    tcp_bytes: int = 0
    tcp_by_host: Counter[str] = attrs.field(factory=Counter)
    """In and out."""
    fetched: int = 0
    """Events that came over TCP."""
    pings: list[tuple[int, str]] = attrs.field(factory=list)
    """When, and by whom."""

    def pings_of(self, names: Collection[str]) -> int:
        return sum(name in names for _, name in self.pings)

    def silence_ms(self) -> int:
        """The longest time between two pings."""
        return max((later - before for (before, _), (later, _) in pairwise(self.pings)), default=0)


class Meter(Observer):
    """Counts."""

    def __init__(self) -> None:
        self.counts = CostCounts()

    def begin(self) -> CostCounts:
        """Count anew; the counts of the part that begins."""
        self.counts = CostCounts()
        return self.counts

    def carried(self, host: Host, message: Message, size: int) -> None:
        counts = self.counts
        counts.packets += 1
        counts.packet_bytes += size
        if isinstance(message, Ping) and host.process is not None:
            counts.pings.append((host.process.now_ms, host.name))

    def transferred(self, host: Host, other: Host, size: int) -> None:
        counts = self.counts
        counts.tcp_bytes += size
        counts.tcp_by_host[host.name] += size
        counts.tcp_by_host[other.name] += size

    def delivered(self, host: Host, what: Input) -> None:  # noqa: ARG002
        if isinstance(what, PeerAnswered) and isinstance(what.answer, EventBatch):
            self.counts.fetched += len(what.answer.events)


class Course:
    """One fleet on its way."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._meter, self._crossings = Meter(), Crossings()
        spread_ms = ROUND_MS * math.ceil(math.log(nodes, 4))
        faults = NetworkFaults(loss=LOSS, delay_ms=(10, spread_ms), silence_ms=10_000)
        self._fleet = Fleet(nodes, faults, is_large=True, observers=[self._meter, self._crossings])
        self._written = 0

    def figures(self) -> dict[str, float]:
        """Go all the way; what was measured, by the names in FIGURES.

        Raises:
            BrokenRuleError: the nodes do not come to hold the same.
        """
        nodes, found = self._nodes, dict[str, float]()
        prepare_directories(self._fleet, nodes - 1)
        took_ms, counts = self._start_all()
        found |= {"start_s": took_ms / 1000, "start_kib": counts.tcp_bytes / 1024 / nodes}
        found["start_follows"] = max(self._crossings.crossed.follows.values(), default=0)
        took_ms, counts = self._join(f"n{nodes - 1}")
        found |= {"join_s": took_ms / 1000, "join_kib": counts.tcp_by_host[f"n{nodes - 1}"] / 1024}
        self._fleet.run(CALM_CLOCKS * CLOCK_MS)
        follows = self._crossings.crossed.follows
        found["join_follows"] = (follows.total() - follows[NodeName(f"n{nodes - 1}")]) / (nodes - 1)
        counts, processes = self._rest(), [host.process for host in self._fleet.hosts.values() if host.process]
        found["rest_follows"] = max(len(process.following) for process in processes)
        found["rest_followers"] = max(process.followers.count for process in processes)
        found["rest_links_bytes"] = self._crossings.crossed.link_bytes * 1000 / (REST_CLOCKS * CLOCK_MS) / nodes
        rate = counts.packet_bytes * 1000 / (REST_CLOCKS * CLOCK_MS)
        found |= {"rest_pings": len(counts.pings) / REST_CLOCKS, "rest_silence": counts.silence_ms() / CLOCK_MS}
        found |= {"rest_heard_bytes": rate, "rest_sent_bytes": rate * COPIES * math.ceil(math.log10(nodes + 1))}
        hosts = [*self._fleet.hosts.values()]
        found["write_s"] = self._write(hosts[1:2], 1, 0)[0] / 1000
        took_ms, counts = self._write(hosts[:WRITERS], WRITES, WRITES_MS)
        found |= {"writes_s": took_ms / 1000, "writes_packets": counts.packets}
        found |= {"writes_gossip_kib": counts.packet_bytes / 1024, "writes_kib": counts.tcp_bytes / 1024 / nodes}
        found |= self._crossed()
        sides = hosts[::2], hosts[1::2]
        counts = self._split(*sides)
        for key, side in zip(("split_pings", "split_pings_other"), sides, strict=True):
            found[key] = counts.pings_of({host.name for host in side}) / SPLIT_CLOCKS
        wanted = self._missing()
        took_ms, counts = self._heal()
        found |= {"heal_clocks": took_ms / CLOCK_MS, "heal_kib": counts.tcp_bytes / 1024 / nodes}
        found["heal_busiest_kib"] = max(counts.tcp_by_host.values(), default=0) / 1024
        crossed = self._crossings.crossed
        found["heal_links_kib"] = crossed.link_bytes / 1024 / nodes
        found["heal_linked_percent"] = 100 * (crossed.events - crossed.in_vain) / wanted
        found["heal_again_percent"] = 100 * max(0, (counts.fetched + crossed.events) / wanted - 1)
        return found

    def _crossed(self) -> dict[str, float]:
        """What the writes cost on links."""
        crossed = self._crossings.crossed
        longest, events = crossed.longest or [0], max(1, crossed.events)
        return {
            "writes_links_kib": crossed.link_bytes / 1024 / self._nodes,
            "writes_frames": crossed.frames / WRITES,
            "writes_steps": sum(longest) / len(longest),
            "writes_steps_max": max(longest),
            "writes_again_percent": 100 * crossed.again / events,
            "writes_in_vain_percent": 100 * crossed.in_vain / events,
        }

    # -- the parts

    def _start_all(self) -> tuple[int, CostCounts]:
        """The whole fleet starts within a second; how long until all are alike."""
        counts = self._begin()
        hosts = [*self._fleet.hosts.values()]
        for number, host in enumerate(hosts):
            host.agent.limit(None, self._nodes)
            self._fleet.later(1000 * number // len(hosts), partial(self._fleet.start, host.name, follow=True))
        self._fleet.run(1000)
        return 1000 + self._until_alike(), counts

    def _join(self, name: str) -> tuple[int, CostCounts]:
        """One more node comes, without data; how long until all are alike."""
        counts = self._begin()
        self._fleet.host(name).agent.limit(None, self._nodes)
        self._fleet.start(name, follow=True)
        took_ms = self._until_alike()
        for host in self._fleet.hosts.values():
            host.agent.doubts_ms = int(DOUBTS_MS * max(1.0, math.log10(self._nodes)))
        return took_ms, counts

    def _rest(self) -> CostCounts:
        """Nothing happens."""
        counts = self._begin()
        self._fleet.run(REST_CLOCKS * CLOCK_MS)
        return counts

    def _write(self, writers: Sequence[Host], count: int, within_ms: int) -> tuple[int, CostCounts]:
        """Some nodes write in turn; how long after the last write all are alike."""
        counts = self._begin()
        self._plan(writers, count, within_ms)
        self._fleet.run(within_ms)
        return self._until_alike(), counts

    def _split(self, *sides: Sequence[Host]) -> CostCounts:
        """Half of the fleet is cut off; each half writes, and has it everywhere before this ends."""
        self._fleet.partition(*([host.name for host in side] for side in sides))
        counts = self._begin()
        for side in sides:
            self._plan(side[:WRITERS], WRITES, SPLIT_CLOCKS * CLOCK_MS // 2)
        self._fleet.run(SPLIT_CLOCKS * CLOCK_MS)
        return counts

    def _heal(self) -> tuple[int, CostCounts]:
        """The halves meet; how long until all are alike."""
        counts = self._begin()
        self._fleet.heal()
        return self._until_alike(), counts

    # -- inside

    def _begin(self) -> CostCounts:
        """A part of the course begins; its counts."""
        self._crossings.begin()
        return self._meter.begin()

    def _plan(self, writers: Sequence[Host], count: int, within_ms: int) -> None:
        for number in range(count):
            self._written += 1
            path = Path(["written", str(self._written)])
            host, write = writers[number % len(writers)], LocalSet(SetValue(1, path, VALUE))
            self._fleet.later(within_ms * number // count, partial(self._fleet.step, host.name, write))

    def _missing(self) -> int:
        """How many events the nodes lack, of all that any of them has."""
        held = [host.live.tree.ledger.held() for host in self._fleet.running()]
        every = count(reduce(joined, held))
        return sum(every - count(one) for one in held)

    def _until_alike(self) -> int:
        """Let time pass until all are alike; for how long.

        Raises:
            BrokenRuleError: it takes too long.
        """
        began_ms = self._fleet.now_ms
        while not show_the_same([host.live for host in self._fleet.running()]):
            if self._fleet.now_ms - began_ms > PATIENCE_MS:
                raise not_at_rest(self._fleet, PATIENCE_MS)
            self._fleet.run(STEP_MS)
        return self._fleet.now_ms - began_ms


@attrs.define
class Crossed:
    """What was counted since some moment."""

    follows: Counter[NodeName] = attrs.field(factory=Counter)
    """How many follows each node began."""
    frames: int = 0
    """Items with events."""
    events: int = 0
    """Events in them."""
    again: int = 0
    """Those that had crossed the same link before."""
    in_vain: int = 0
    """Those that were held already, however they came."""
    link_bytes: int = 0
    """All that came on links, signs of life among it."""
    steps: dict[Link, dict[NodeName, int]] = attrs.field(factory=dict)
    """In how many steps an event came to each node; where a part of its way was no link, that part counts nothing."""

    @property
    def longest(self) -> list[int]:
        """The steps to the farthest node, of each event."""
        return [max(steps.values()) for steps in self.steps.values()]


class Crossings(Observer):
    """What crosses links: which events, how often, and in how many steps from their writers."""

    def __init__(self) -> None:
        self.crossed = Crossed()
        self._ways = set[tuple[NodeName, NodeName, Link]]()

    def begin(self) -> Crossed:
        """Count anew; the counts that begin. What crossed a link before is not forgotten."""
        self.crossed = Crossed()
        return self.crossed

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if ready.follows:
            self.crossed.follows[process.host.node] += sum(bool(follow.nodes) for follow in ready.follows)

    def streamed(self, host: Host, other: Host, size: int) -> None:  # noqa: ARG002
        self.crossed.link_bytes += size

    def delivered(self, host: Host, what: Input) -> None:
        if not isinstance(what, FollowTold) or not what.events:
            return
        parent = host.live.followed(what.follow)
        if parent is None:
            return  # it is followed no more
        crossed, ledger, ways = self.crossed, host.live.tree.ledger, self._ways
        crossed.frames += 1
        crossed.events += len(what.events)
        for event in what.events:
            link = event.link
            way = (parent, host.node, link)
            crossed.again += way in ways
            ways.add(way)
            crossed.in_vain += ledger.has(link)
            steps = crossed.steps.setdefault(link, {})
            steps.setdefault(host.node, steps.get(parent, 0) + 1)
