"""A fleet as a scenario begins with it: its chance, its network, and who observes it.

Knows: what can be said of a whole run, and what holds when nothing is said.  Does not know what happens then.

Invariant: the same settings give the same fleet.
"""

from __future__ import annotations

from collections.abc import Sequence

from distkv.sim.actions import SettingMap
from distkv.sim.fleet import Fleet
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import Observer
from distkv.sim.sayings import SAY, SayingNodes
from distkv.sim.service import sim_parts
from distkv.sim.settings import world_defaults
from distkv.sim.trees import TreeNodes
from distkv.sim.watching import SlowWatchers, draw


def new_fleet(settings: SettingMap, observers: Sequence[Observer]) -> Fleet:
    """A fleet without hosts. Of `settings` those count that the whole run has."""
    world = world_defaults() | dict(settings)
    seed, delay_ms, answer_ms = int(world["seed"]), int(world["delay_ms"]), int(world["answer_ms"])
    faults = NetworkFaults(
        delay_ms=(delay_ms, delay_ms), answer_ms=(answer_ms, answer_ms), silence_ms=int(world["silence_ms"])
    )
    habits, limits = draw(seed) if world["watchers"] else ([], None)
    slow = [SlowWatchers(seed, habits, limits)] if habits and limits is not None else []
    fleet = Fleet(seed, faults, members_seen=bool(world["members"]), observers=[*slow, *observers])
    fleet.own_every = int(world["own_every"])
    if world["trees"]:
        fleet.tree_nodes = TreeNodes(seed, int(world["children"]), int(world["announce_ms"]))
        fleet.services[SAY] = SayingNodes()
    for part in sim_parts():
        nodes = part.nodes(fleet.hosts, seed, world)
        if nodes is not None:
            fleet.services[part.name] = nodes
    return fleet
