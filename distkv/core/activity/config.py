"""The settings of the activity network, with their defaults.

Knows: what can be set and what each setting means.  Does not know where a setting comes from.

Invariant: as that of `distkv.config`, a value that cannot be meant was refused when it was made.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.config import above_zero
from distkv.errors import SettingsError
from distkv.naming import parse_address


@attrs.frozen
class ActivityConfig:
    """The activity network: clients that log in, and hear what any of them says."""

    listen: str | None = attrs.field(default=None)
    """Where clients of the activity network connect, HOST:PORT. None: this node has none."""
    advertise: str | None = attrs.field(default=None)
    """Where other nodes send clients to, HOST:PORT; None: `activity.listen`."""
    copies: int = attrs.field(default=2)
    """How many other nodes have an activity when its sender is given the echo, as far as so many have a listener and
    are reached: 0 to 7. The same on all nodes."""
    keep_s: float = attrs.field(default=60.0)
    """So many seconds an activity is kept for clients that resume. The same on all nodes."""
    keep_count: int = attrs.field(default=100_000)
    """How many activities are kept at the most; above it the oldest go first."""
    keep_bytes: int = attrs.field(default=64 << 20)
    """How many bytes of activities are kept at the most; above it the oldest go first."""
    rate: int = attrs.field(default=200)
    """How many activities a second one user may send at a node; beyond it he is not read for a while."""

    @listen.validator
    def _check_listen(self, _: object, value: str | None) -> None:
        if value is not None:
            parse_address(value, "activity.listen")

    @advertise.validator
    def _check_advertise(self, _: object, value: str | None) -> None:
        if value is not None and parse_address(value, "activity.advertise")[1] == 0:
            raise SettingsError(f"activity.advertise is {value}: clients need a port other than 0")

    @copies.validator
    def _check_copies(self, _: object, value: int) -> None:
        if not 0 <= value <= 7:
            raise SettingsError(f"activity.copies is {value}: it must be 0 to 7")

    @keep_s.validator
    def _check_keep(self, _: object, value: float) -> None:
        if not 1 <= value <= 3600:
            raise SettingsError(f"activity.keep is {value}: it must be seconds, from 1 to 3600")

    @keep_count.validator
    def _check_keep_count(self, _: object, value: int) -> None:
        if not 1 <= value <= 10_000_000:
            raise SettingsError(f"activity.keep_count is {value}: it must be 1 to 10000000")

    @keep_bytes.validator
    def _check_keep_bytes(self, _: object, value: int) -> None:
        if value < 1 << 20:
            raise SettingsError(f"activity.keep_bytes is {value}: it must be {1 << 20} or more")

    @rate.validator
    def _check_rate(self, _: object, value: int) -> None:
        if not 1 <= value <= 1_000_000:
            raise SettingsError(f"activity.rate is {value}: it must be 1 to 1000000")


@attrs.frozen
class ActivityLimits:
    """How much the activity network takes of a node."""

    activity_connections: int = attrs.field(default=4096, validator=above_zero)
    """How many clients may be connected; a further one is told so, and closed."""
    activity_queue: int = attrs.field(default=10_000, validator=above_zero)
    """How many activities may wait for a client that reads slowly; with more it is closed."""
    activity_queue_bytes: int = attrs.field(default=16 << 20, validator=above_zero)
    """How many bytes of activities may wait for a client that reads slowly; with more it is closed."""
    activity_missed_bytes: int = attrs.field(default=256 << 20, validator=above_zero)
    """How many bytes of what they lack may wait for all clients that resume; above it who waits longest is closed."""
    activity_half_bytes: int = attrs.field(default=16 << 20, validator=above_zero)
    """How many bytes of messages that have not come whole are kept, of all clients; above it the one that began
    first is closed."""


SECTIONS: Final = ((ActivityConfig, "activity"), (ActivityLimits, "limits"))
"""Each with the first word of its keys."""
