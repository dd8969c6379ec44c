"""What tokens bring to the simulator, as it mounts them.

Knows: where each piece is.  Does not know what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.core.tokens.machine import TOKENS
from distkv.sim.actions import SettingMap
from distkv.sim.host import Host
from distkv.sim.rule import Observer
from distkv.sim.service import SimPart
from distkv.sim.tokens.actions import VERBS
from distkv.sim.tokens.crowd import TokenCrowd
from distkv.sim.tokens.data_rule import DataIsKept
from distkv.sim.tokens.draft import draw
from distkv.sim.tokens.nodes import TokenNodes
from distkv.sim.tokens.rules import FencedInOrder, FencesGrow, OneHolder, OrderIsKept, TurnsAreKept, WantedIsGranted

SETTINGS: Final = {"tokens": 0, "lease_ms": 5000, "ttl_ms": 15_000, "drift": 1}
"""How many hosts serve tokens, their lease, the ttl of a session, and how wrong clocks may be (percent)."""


def _nodes(hosts: Mapping[str, Host], seed: int, world: SettingMap) -> TokenNodes | None:
    if not world["tokens"]:
        return None
    servers, lease_ms, ttl_ms = int(world["tokens"]), int(world["lease_ms"]), int(world["ttl_ms"])
    return TokenNodes(hosts, seed, servers, lease_ms, ttl_ms, int(world["drift"]) / 100)


def _rules() -> Sequence[Observer]:
    return [DataIsKept(), FencedInOrder(), FencesGrow(), OneHolder(), OrderIsKept(), TurnsAreKept(), WantedIsGranted()]


PART: Final = SimPart(TOKENS, SETTINGS, _nodes, TokenCrowd, VERBS, draw, _rules)
