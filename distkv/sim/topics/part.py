"""What topics bring to the simulator, as it mounts them.

Knows: that no host has them yet: what a seed draws, its clients and its rules are not mounted.  Does not know what they
do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.topics.settings import TOPICS
from distkv.sim.actions import ServiceAction, SettingMap, ShowService
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.service import SimPart


class NobodyAsks:
    """No client."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet: Final = fleet

    def do(self, action: ServiceAction) -> str:
        return f"nobody does {action}"

    def lines(self) -> list[str]:
        return []

    def shown(self, action: ShowService) -> list[str]:  # noqa: ARG002
        return []

    def all_is_well(self) -> bool:
        return False


def _nodes(hosts: Mapping[str, Host], seed: int, world: SettingMap) -> None:  # noqa: ARG001
    return None


PART: Final = SimPart(TOPICS, {}, _nodes, NobodyAsks, (), lambda *_: None, list)
