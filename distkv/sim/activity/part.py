"""What the activity network brings to the simulator, as it mounts it.

Knows: where each piece is.  Does not know what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.sim.actions import SettingMap
from distkv.sim.activity.actions import VERBS
from distkv.sim.activity.copies import ActivityCopies
from distkv.sim.activity.cost import FIGURES, measure
from distkv.sim.activity.crowd import ActivityCrowd
from distkv.sim.activity.draft import FIRST_SEED, draw
from distkv.sim.activity.nodes import ActivityNodes
from distkv.sim.activity.reach import ActivityReach
from distkv.sim.activity.rules import (
    EchoedIsHeard,
    EchoHasCopies,
    EndsInOrder,
    LoadsAreAlike,
    OnceAndInOrder,
    SeldomSentOn,
)
from distkv.sim.host import Host
from distkv.sim.rule import Observer
from distkv.sim.service import SimPart

SETTINGS: Final = {"activity": False, "activity_copies": 2}
"""Whether hosts have it, and how many other nodes have an activity when it is echoed."""


def _nodes(hosts: Mapping[str, Host], seed: int, world: SettingMap) -> ActivityNodes | None:
    if not world["activity"]:
        return None
    return ActivityNodes(hosts, seed, ActivitySettings(copies=int(world["activity_copies"])))


def _rules() -> Sequence[Observer]:
    reach = ActivityReach()
    copies = ActivityCopies(reach)
    return [
        reach,
        copies,
        OnceAndInOrder(copies),
        EchoHasCopies(reach),
        EchoedIsHeard(reach, copies),
        EndsInOrder(reach),
        SeldomSentOn(),
        LoadsAreAlike(),
    ]


PART: Final = SimPart(
    ACTIVITY, SETTINGS, _nodes, ActivityCrowd, VERBS, draw, _rules, FIRST_SEED, figures=FIGURES, measure=measure,
    is_alone=True,
)  # fmt: skip
