"""What the machine of accounts goes by on a node.

Knows: the numbers.  Does not know where a setting comes from.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.config import Config
from distkv.core.accounts.config import AccountLimits

COST: Final = 14
"""16 MiB, and some 50 ms for one secret."""


@attrs.frozen
class AccountSettings:
    """On one node."""

    accounts_max: int = 100_000
    checks_max: int = 1000
    """So many requests of each kind wait here: a further one is refused as `busy`."""
    cost: int = COST
    """The binary logarithm of N of scrypt, for new accounts."""
    patience_ms: int = 10_000
    """So long the change of an account may take after the token is held."""
    look_ms: int = 3_000
    """So long a login waits for a majority of the token servers."""


def settings_of(config: Config) -> AccountSettings:
    """Those of a node of this configuration."""
    limits = config.of(AccountLimits)
    return AccountSettings(limits.accounts, limits.account_checks)
