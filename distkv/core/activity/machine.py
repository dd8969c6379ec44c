"""The activity service of one node, as a machine of the ground.

Knows: how it is made.  Does not know what a node does with an activity (`node`).

Invariant: it never raises for what a client or a node said.
"""

from __future__ import annotations

from distkv.core.activity.node import ActivityNode
from distkv.core.activity.settings import ActivitySettings
from distkv.core.ground.machine import ServiceGround
from distkv.core.ground.made_anew import MadeAnew
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import Rng


class ActivityMachine(MadeAnew[ActivityNode]):
    """See `ServiceMachine`."""

    def __init__(self, settings: ActivitySettings, rng: Rng) -> None:
        def make(turn: ServiceTurn, ground: ServiceGround) -> ActivityNode:
            node = ActivityNode(settings, rng, ground, turn)
            node.begin(turn)
            return node

        super().__init__(make, settings.alike())
