"""What accounts bring to the simulator, as it mounts them.

Knows: where each piece is.  Does not know what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.core.accounts.requests import ACCOUNTS
from distkv.sim.accounts.actions import VERBS
from distkv.sim.accounts.crowd import AccountCrowd
from distkv.sim.accounts.draft import FIRST_SEED, draw
from distkv.sim.accounts.nodes import AccountNodes
from distkv.sim.accounts.rules import DisksLost, OnlyRegistered, OwnedOnce, SameEverywhere
from distkv.sim.actions import SettingMap
from distkv.sim.host import Host
from distkv.sim.rule import Observer
from distkv.sim.service import SimPart

SETTINGS: Final = {"accounts": False}
"""Whether hosts have accounts; they need `tokens`."""


def _nodes(hosts: Mapping[str, Host], seed: int, world: SettingMap) -> AccountNodes | None:  # noqa: ARG001
    return AccountNodes(seed) if world["accounts"] else None


def _rules() -> Sequence[Observer]:
    disks = DisksLost()
    return [disks, OwnedOnce(disks), OnlyRegistered(disks), SameEverywhere(disks)]


PART: Final = SimPart(ACCOUNTS, SETTINGS, _nodes, AccountCrowd, VERBS, draw, _rules, FIRST_SEED)
