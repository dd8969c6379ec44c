"""What the activity network brings to the simulator, as it mounts it.

Knows: where each piece is, and what a seed draws.  Does not know what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.sim.actions import ServiceAction, SettingMap, ShowService
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.service import Drawn, SimPart


class ActivityCrowd:
    """All clients of one run."""

    def __init__(self, fleet: Fleet) -> None:
        """Nobody is there."""

    def do(self, action: ServiceAction) -> str:
        """There is no action."""
        return f"{action} is none"

    def lines(self) -> list[str]:
        """What clients have."""
        return []

    def shown(self, action: ShowService) -> list[str]:
        """What is asked to be shown."""
        return [f"{action} shows nothing"]

    def all_is_well(self) -> bool:
        """Nobody wants anything."""
        return False


def _nodes(hosts: Mapping[str, Host], seed: int, world: SettingMap) -> None:  # noqa: ARG001
    return None


def _draw(seed: int, names: Sequence[str], length_ms: int) -> Drawn | None:  # noqa: ARG001
    return None


PART: Final = SimPart("activity", {}, _nodes, ActivityCrowd, (), _draw, list)
