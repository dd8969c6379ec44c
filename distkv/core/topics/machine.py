"""The topic service of one node, as a machine of the ground: durable publish and subscribe.

Knows: the form of a service's machine.  Does not know what topics do (`node`).

Invariant: it never raises for what a client, a node or a row said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.ground.machine import ServiceGround, ServiceInput, Setting
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import Rng
from distkv.core.topics.node import TopicNode
from distkv.core.topics.settings import TopicSettings


class TopicMachine:
    """See `ServiceMachine`."""

    def __init__(self, settings: TopicSettings, rng: Rng) -> None:
        self.settings: Final = settings
        self.node: TopicNode | None = None
        """None: it did not begin yet."""
        self._rng: Final = rng

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:
        """Begin anew."""
        self.node = TopicNode(self.settings, self._rng, ground, turn)
        self.node.begin(turn, ground.data)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input."""
        if self.node is not None:
            self.node.step(turn, what)

    def wake_ms(self) -> int | None:
        """When it wants to be woken."""
        return None if self.node is None else self.node.wake_ms()

    def statistics(self) -> Mapping[str, object]:
        """What people are shown: how many topics are here and owned, their size, and what is not as it should be."""
        return {} if self.node is None else self.node.statistics()

    def alike(self) -> Mapping[str, Setting]:
        """What all nodes should have alike."""
        return self.settings.alike()

    def check(self, *, is_whole: bool = True) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        if self.node is not None:
            self.node.check(is_whole=is_whole)
