"""What crosses links in a simulated network: which events, how often, and in how many steps from their writers.

Knows: each item that a follower is about to take, and each follow that begins.  Does not know what is right.

Invariant: it only counts.
"""

from __future__ import annotations

from collections import Counter

import attrs

from distkv.core.ready import FollowTold, Input, Ready
from distkv.model.event import Link, NodeName
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observer


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
    """Counts."""

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
