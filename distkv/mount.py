"""Which services there are: the one list that names them.

Knows: in which module each layer has its part of a service.  Does not know what any of them does.

A service is mounted by a line in `SERVICES`. Each layer asks here for its own part of every service, so no other file
has to name one. A part is loaded when it is asked for: most commands need none.

Invariant: the parts of a layer come in the order in which the services are mounted.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

SERVICES: tuple[tuple[str, str], ...] = (
    ("distkv", "tokens"), ("distkv", "topics"), ("distkv", "accounts"), ("distkv", "activity"),
)  # fmt: skip
"""Of each service the package that has its parts, and its name."""

SHELLS: tuple[tuple[str, str], ...] = (("distkv", "activity"),)
"""The same of those that have clients of their own, who do not speak the protocol of the store."""

PLACES: Final = {
    "config": "core.{}.config",
    "wire": "wire.{}",
    "core": "core.{}.part",
    "doctor": "doctor.{}",
    "shell": "services.{}.shell",
    "cli": "cli.{}_commands",
    "sim": "sim.{}.part",
}
"""Where in that package each layer looks for its part."""


def names() -> tuple[str, ...]:
    """Of all services."""
    return tuple([name for _, name in SERVICES])


def parts(layer: str) -> tuple[ModuleType, ...]:
    """The part of each service that belongs to a layer."""
    return _loaded(layer, SHELLS if layer == "shell" else SERVICES)


@cache
def _loaded(layer: str, services: tuple[tuple[str, str], ...]) -> tuple[ModuleType, ...]:
    return tuple([import_module(f"{package}.{PLACES[layer].format(name)}") for package, name in services])
