"""The activity service of one node, as a machine of the ground.

Knows: the form of a service's machine.  Does not know what a node does with an activity (`node`).

Invariant: it never raises for what a client or a node said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.activity.node import ActivityNode
from distkv.core.activity.settings import ActivitySettings
from distkv.core.ground.machine import ServiceGround, ServiceInput, Setting
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import Rng


class ActivityMachine:
    """See `ServiceMachine`."""

    def __init__(self, settings: ActivitySettings, rng: Rng) -> None:
        self.settings: Final = settings
        self.node: ActivityNode | None = None
        """None: it did not begin yet."""
        self._rng: Final = rng

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:
        """Begin anew."""
        self.node = ActivityNode(self.settings, self._rng, ground, turn)
        self.node.begin(turn)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input."""
        if self.node is not None:
            self.node.step(turn, what)

    def wake_ms(self) -> int | None:
        """When it wants to be woken."""
        return None if self.node is None else self.node.wake_ms()

    def statistics(self) -> Mapping[str, object]:
        """What people are shown."""
        return {} if self.node is None else self.node.statistics()

    def alike(self) -> Mapping[str, Setting]:
        """What all nodes should have alike."""
        return self.settings.alike()

    def check(self, *, is_whole: bool = True) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        if self.node is not None:
            self.node.check(is_whole=is_whole)
