"""What a service brings to the simulator.

Knows: the form of its part, and where the parts are found.  Does not know any service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from distkv.mount import parts
from distkv.sim.actions import Happening, ServiceAction, SettingMap, ShowService
from distkv.sim.fleet import Fleet
from distkv.sim.forms import Verb
from distkv.sim.host import Host
from distkv.sim.rule import Observer
from distkv.sim.service_nodes import ServiceNodes


class Crowd(Protocol):
    """All clients of the service in one run."""

    def do(self, action: ServiceAction) -> str:
        """Carry out one action. Returns why it cannot be, if that is so."""

    def lines(self) -> list[str]:
        """What clients have, in words; `state` shows it."""

    def shown(self, action: ShowService) -> list[str]:
        """What is asked to be shown, in words."""

    def all_is_well(self) -> bool:
        """Faults are over, and nodes at rest: let every client have what it wants. Returns whether time has passed."""


@attrs.frozen
class Drawn:
    """What a seed has of the service."""

    settings: SettingMap
    """Of the whole run."""
    planned: Sequence[tuple[int, Happening]]
    """What happens, and when (ms)."""


@attrs.frozen(eq=False)
class SimPart:
    """One service."""

    name: str
    settings: SettingMap
    """What can be set of the whole run, and what holds when nothing is said."""
    nodes: Callable[[Mapping[str, Host], int, SettingMap], ServiceNodes | None]
    """The service on hosts, by the seed of chance and the settings; None: no host has it."""
    crowd: Callable[[Fleet], Crowd]
    verbs: Sequence[Verb]
    """Of its actions."""
    draw: Callable[[int, Sequence[str], int], Drawn | None]
    """What a seed has of it, by the names of the hosts and the length of the run (ms); None: nothing."""
    rules: Callable[[], Sequence[Observer]]
    """What must be true in every run."""
    first_seed: int = 0
    """No seed before this one has it."""
    length_ms: int | None = None
    """How long the seeds from there on are at the most, if clients of the service ask very much."""
    figures: Mapping[str, str] = attrs.field(factory=dict)
    """What is measured of a fleet of some size, in words for a table; nothing, when nothing is."""
    measure: Callable[[int], Mapping[str, float]] | None = None
    """Measures a fleet of so many nodes: the figures, by these names. It may raise BrokenRuleError."""
    is_alone: bool = False
    """Whether other services with a first seed are not in the seeds from there on: they cost too much together."""


def sim_parts() -> Sequence[SimPart]:
    """Those of all services."""
    return [module.PART for module in parts("sim")]


def parts_of(seed: int) -> list[SimPart]:
    """Those that a seed may have."""
    every = sim_parts()
    alone = [part for part in every if part.is_alone and seed >= part.first_seed]
    return [part for part in every if not alone or part in alone or not part.first_seed]

