"""A fleet as a scenario begins with it: its chance, its network, and who observes it.

Knows: what can be said of a whole run, and what holds when nothing is said.  Does not know what happens then.

Invariant: the same settings give the same fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.core.tokens.machine import TOKENS
from distkv.sim.actions import Setting, SettingMap
from distkv.sim.fleet import Fleet
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import Observer
from distkv.sim.token_nodes import TokenNodes
from distkv.sim.trees import TreeNodes
from distkv.sim.watching import SlowWatchers, draw

DEFAULTS: Final[dict[str, Setting]] = {
    "seed": 0,
    "members": True,
    "delay_ms": 10,
    "answer_ms": 5,
    "silence_ms": 0,
    "own_every": 1,
    "watchers": False,
    "trees": False,
    "children": 16,
    "announce_ms": 5000,
    "tokens": 0,
    "lease_ms": 5000,
    "ttl_ms": 15_000,
    "drift": 1,
}
"""The seed of chance, whether agents say who is there, how long gossip and each part of an answer take, how long a peer
that does not answer is waited for (0: one knows at once), of how many of its messages a node hears one again,
whether the slow watchers of the seed are there, and whether there are server trees, with how many children of a node,
and how often a node announces itself. Last, how many hosts serve tokens, their lease, the ttl of a session, and
how wrong clocks may be (percent)."""


def new_fleet(settings: SettingMap, observers: Sequence[Observer]) -> Fleet:
    """A fleet without hosts. Of `settings` those count that `DEFAULTS` has."""
    world = {**DEFAULTS, **settings}
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
    if world["tokens"]:
        servers, lease_ms, ttl_ms = int(world["tokens"]), int(world["lease_ms"]), int(world["ttl_ms"])
        fleet.services[TOKENS] = TokenNodes(fleet.hosts, seed, servers, lease_ms, ttl_ms, int(world["drift"]) / 100)
    return fleet
