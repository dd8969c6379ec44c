"""What a node is told about the activity network at its start.

Knows: the values.  Does not know what becomes of them.

Invariant: settings never change while a node runs.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.config import Config
from distkv.core.activity.config import ActivityConfig, ActivityLimits

ACTIVITY: Final = "activity"
"""The name of the service."""


@attrs.frozen
class ActivitySettings:
    """Of one node."""

    copies: int = 2
    """How many other nodes have an activity before its sender is given the echo, as far as so many are reached."""
    keep_ms: int = 60_000
    """How long an activity is kept, for holes of other nodes and for clients that resume."""
    keep_count: int = 100_000
    keep_bytes: int = 64 << 20
    rate: int = 200
    """So many activities of one user are taken in a second."""
    clients_max: int = 4096
    """Of the clients that are logged in, or wait for it."""
    origins_max: int = 1_000
    """Of so many origins a node knows how far it is."""
    senders_max: int = 10_000
    """Of so many clients that resume a node knows with which epoch they sent."""
    unechoed_max: int = 10_000
    """So many activities of own clients wait for their echo; more are not read."""
    unechoed_bytes: int = 16 << 20
    held_max: int = 20_000
    """So many activities of others wait for earlier ones."""
    held_bytes: int = 32 << 20

    def alike(self) -> dict[str, int | float | str]:
        """Those that people have to set alike, by their keys in the configuration."""
        return {"activity.copies": self.copies, "activity.keep": self.keep_ms / 1000}


def settings_of(config: Config) -> ActivitySettings:
    """As a configuration has them."""
    activity, limits = config.of(ActivityConfig), config.of(ActivityLimits)
    return ActivitySettings(
        copies=activity.copies,
        keep_ms=int(activity.keep_s * 1000),
        keep_count=activity.keep_count,
        keep_bytes=activity.keep_bytes,
        rate=activity.rate,
        clients_max=limits.activity_connections,
    )
