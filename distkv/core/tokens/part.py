"""The token service, as a node mounts it.

Knows: which settings it has, and when a node has none.  Does not know what it does.
"""

from __future__ import annotations

from typing import Final

from distkv.config import Config
from distkv.core.ground.service import Service
from distkv.core.ready import Rng
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings


def _machine(config: Config, rng: Rng) -> TokenMachine | None:
    settings = TokenSettings.of(config)
    return TokenMachine(settings, rng) if settings.servers else None


SERVICE: Final = Service(
    TOKENS,
    _machine,
    alike=lambda config: TokenSettings.of(config).alike(),
    alike_off=TokenSettings(()).alike(),
)
