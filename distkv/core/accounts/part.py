"""The service of accounts, as a node mounts it.

Knows: that every node has it, because each may be a token server that is asked.  Does not know what it does.
"""

from __future__ import annotations

from typing import Final

from distkv.config import Config
from distkv.core.accounts.machine import AccountMachine
from distkv.core.accounts.requests import ACCOUNTS
from distkv.core.accounts.settings import settings_of
from distkv.core.ground.service import Service
from distkv.core.ready import Rng


def _machine(config: Config, rng: Rng) -> AccountMachine:
    return AccountMachine(settings_of(config), rng)


SERVICE: Final = Service(ACCOUNTS, _machine, alike=lambda _: {})
