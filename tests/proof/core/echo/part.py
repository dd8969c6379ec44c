"""The echo, as a node mounts it.

Knows: when a node has it.  Does not know what it does.
"""

from __future__ import annotations

from typing import Final

from distkv.config import Config
from distkv.core.ground.service import Service
from distkv.core.ready import Rng
from tests.proof.core.echo.config import EchoConfig
from tests.proof.core.echo.machine import ECHO, Echo


def _machine(config: Config, _: Rng) -> Echo | None:
    length = config.of(EchoConfig).length
    return Echo(length) if length else None


SERVICE: Final = Service(
    ECHO,
    _machine,
    alike=lambda config: {"echo.length": length} if (length := config.of(EchoConfig).length) else {},
)
