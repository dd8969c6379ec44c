"""The settings of accounts, with their defaults.

Knows: what can be set and what each setting means.  Does not know where a setting comes from.

Invariant: as that of `distkv.config`, a value that cannot be meant was refused when it was made.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.config import above_zero


@attrs.frozen
class AccountLimits:
    """How much a node does for accounts."""

    accounts: int = attrs.field(default=100_000, validator=above_zero)
    """How many names may be registered; a further one is refused with `too_large`. Those that are free again count."""
    account_checks: int = attrs.field(default=1_000, validator=above_zero)
    """How many registrations and logins may wait on a node; of more, one is refused with `busy`, from the host from
    which most come."""


SECTIONS: Final = ((AccountLimits, "limits"),)
"""Each with the first word of its keys."""
