"""The topic service, as a node mounts it.

Knows: that every node has it, because each may be asked for a topic.  Does not know what it does.
"""

from __future__ import annotations

from typing import Final

from distkv.config import Config
from distkv.core.ground.service import Service
from distkv.core.ready import Rng
from distkv.core.topics.machine import TopicMachine
from distkv.core.topics.settings import TOPICS, settings_of


def _machine(config: Config, rng: Rng) -> TopicMachine:
    return TopicMachine(settings_of(config), rng)


SERVICE: Final = Service(TOPICS, _machine, alike=lambda config: settings_of(config).alike())
