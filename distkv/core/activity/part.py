"""The activity network, as a node mounts it.

Knows: that a node without a listener has none.  Does not know what it does.
"""

from __future__ import annotations

from typing import Final

from distkv.config import Config
from distkv.core.activity.config import ActivityConfig
from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.settings import ACTIVITY, settings_of
from distkv.core.ground.service import Service
from distkv.core.ready import Rng


def _machine(config: Config, rng: Rng) -> ActivityMachine | None:
    return ActivityMachine(settings_of(config), rng) if config.of(ActivityConfig).listen else None


SERVICE: Final = Service(
    ACTIVITY,
    _machine,
    alike=lambda config: settings_of(config).alike() if config.of(ActivityConfig).listen else {},
)
