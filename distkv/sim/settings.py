"""What a scenario file can set: of the whole run, and of the processes that start.

Knows: the names of settings, their fields, and what holds when nothing is said.  Does not know what becomes of them
(`world`, `stage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distkv.sim.actions import Setting, SettingMap
from distkv.sim.service import sim_parts
from distkv.sim.told import FLAT
from distkv.sim.words import Known, time_of

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
}
"""The seed of chance, whether agents say who is there, how long gossip and each part of an answer take, how long a peer
that does not answer is waited for (0: one knows at once), of how many of its messages a node hears one again,
whether the slow watchers of the seed are there, and whether there are server trees, with how many children of a node,
and how often a node announces itself. Services have settings of their own."""


def name_of(field: str) -> str:
    """What a file calls it."""
    return field.removesuffix("_ms").removesuffix("_max").removesuffix("_every").replace("_", "-")


def world_defaults() -> dict[str, Setting]:
    """What can be set of the whole run, by field, and what holds when nothing is said."""
    return DEFAULTS | {field: value for part in sim_parts() for field, value in part.settings.items()}


def world_known() -> Known:
    """The same, as a file names it."""
    return {name_of(field): (field, default) for field, default in world_defaults().items()}


CORE: Final[Known] = {
    name_of(field): (field, default) for field, default in FLAT.items() if isinstance(default, int)
}
"""What a node can be told."""


def setting_words(values: SettingMap) -> Iterator[str]:
    """Settings as a file has them."""
    for field, value in values.items():
        if isinstance(value, bool):
            yield f"{name_of(field)}={'yes' if value else 'no'}"
        else:
            yield f"{name_of(field)}={time_of(value) if field.endswith('_ms') else value}"

