"""Accounts on the hosts of a fleet.

Knows: which machine each start of a host has.  Does not know who registers (`crowd`).

Invariant: chance for accounts is drawn from generators of their own.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

import attrs

from distkv.core.accounts.machine import AccountMachine
from distkv.core.accounts.settings import AccountSettings
from distkv.core.ground.machine import ServiceMachine
from distkv.sim.host import Host

SETTINGS: Final = AccountSettings(cost=1)
"""Hashes take no time here."""


@attrs.frozen
class AccountNodes:
    """Gives each host that starts a machine of its own."""

    seed: int
    _starts: Counter[str] = attrs.field(factory=Counter)

    def start(self, host: Host) -> ServiceMachine:
        """For a host that starts."""
        self._starts[host.name] += 1
        return AccountMachine(SETTINGS, Random(f"accounts of {host.name} {self.seed} {self._starts[host.name]}"))
