"""What topics bring to the simulator, as it mounts them.

Knows: where each piece is.  Does not know what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.core.topics.settings import TOPICS, TopicSettings
from distkv.sim.actions import SettingMap
from distkv.sim.host import Host
from distkv.sim.rule import Observer
from distkv.sim.service import SimPart
from distkv.sim.topics.actions import VERBS
from distkv.sim.topics.crowd import TopicCrowd
from distkv.sim.topics.draft import FIRST_SEED, LENGTH_MS, draw
from distkv.sim.topics.nodes import TopicNodes
from distkv.sim.topics.rest_rules import AllIsForgotten, CopiesAreEqual, OneOwner, OneVersion
from distkv.sim.topics.rules import (
    GoneIsTold,
    NeverAgain,
    OnceIntoState,
    OnlyPutsCome,
    ProducersInOrder,
    PutsAreKept,
)
from distkv.sim.topics.troubles import Troubles

SETTINGS: Final = {
    "topics": 0, "topic_replicas": 2, "topic_lease_ms": 2000, "topic_drift": 1, "topic_away": 32 << 20,
    "topic_backlog": 128 << 20,
}  # fmt: skip
"""How many hosts keep topics, on how many each is, the lease, how wrong clocks may be (percent), and how many bytes are
kept for nodes that are away, and for known subscribers."""


def _nodes(hosts: Mapping[str, Host], seed: int, world: SettingMap) -> TopicNodes | None:
    if not world["topics"]:
        return None
    settings = TopicSettings(
        replicas=int(world["topic_replicas"]),
        lease_ms=int(world["topic_lease_ms"]),
        drift=int(world["topic_drift"]) / 100,
        away_bytes=int(world["topic_away"]),
        backlog_bytes=int(world["topic_backlog"]),
    )
    return TopicNodes(hosts, seed, int(world["topics"]), settings)


def _rules() -> Sequence[Observer]:
    troubles = Troubles()
    of_clients = OnceIntoState, PutsAreKept, GoneIsTold, ProducersInOrder, NeverAgain, OnlyPutsCome
    of_nodes = OneOwner, OneVersion, CopiesAreEqual, AllIsForgotten
    return [troubles, *(rule(troubles) for rule in (*of_clients, *of_nodes))]


PART: Final = SimPart(TOPICS, SETTINGS, _nodes, TopicCrowd, VERBS, draw, _rules, FIRST_SEED, LENGTH_MS)
