"""The echo, as a node mounts it. It borrows a setting: the product has none for it.

Knows: when a node has it.  Does not know what it does.
"""

from __future__ import annotations

from typing import Final

from distkv.config import Config
from distkv.core.ground.service import Service
from distkv.core.ready import Rng
from tests.proof.core.echo.machine import ECHO, Echo


def _machine(config: Config, _: Rng) -> Echo | None:
    return Echo(config.chain_length) if config.chain_length > 2 else None


SERVICE: Final = Service(
    ECHO,
    _machine,
    alike=lambda config: {} if config.chain_length == 2 else {"echo.length": config.chain_length},
)
