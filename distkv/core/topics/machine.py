"""The topic service of one node, as a machine of the ground: durable publish and subscribe.

Knows: how it is made.  Does not know what topics do (`node`).

Invariant: it never raises for what a client, a node or a row said.
"""

from __future__ import annotations

from distkv.core.ground.machine import ServiceGround
from distkv.core.ground.made_anew import MadeAnew
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import Rng
from distkv.core.topics.node import TopicNode
from distkv.core.topics.settings import TopicSettings


class TopicMachine(MadeAnew[TopicNode]):
    """See `ServiceMachine`."""

    def __init__(self, settings: TopicSettings, rng: Rng) -> None:
        def make(turn: ServiceTurn, ground: ServiceGround) -> TopicNode:
            node = TopicNode(settings, rng, ground, turn)
            node.begin(turn, ground.data)
            return node

        super().__init__(make, settings.alike())
