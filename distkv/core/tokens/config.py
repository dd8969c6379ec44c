"""The settings of tokens, with their defaults.

Knows: what can be set and what each setting means.  Does not know where a setting comes from.

Invariant: as that of `distkv.config`, a value that cannot be meant was refused when it was made.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.config import above_zero
from distkv.errors import SettingsError
from distkv.naming import is_node_name


@attrs.frozen
class TokensConfig:
    """Tokens, which are locks. All of this must be the same on all nodes."""

    servers: tuple[str, ...] = attrs.field(default=())
    """The names of the nodes that serve tokens: 1, 3, 5 or 7. A majority of them must be alive. Empty: no tokens. This
    counts until they have begun. Afterwards ``distkv client token servers --set`` changes who serves."""
    lease_s: float = attrs.field(default=5.0)
    """After so many seconds without a majority, a server grants nothing. So long it also takes to notice that a server
    is gone."""
    ttl_s: float = attrs.field(default=15.0)
    """After so many seconds without a sign of life a session ends, if its client asks for nothing else. It is at least
    three leases (`tokens.lease`), whatever is set here."""
    lock_delay_s: float | None = attrs.field(default=None)
    """How many seconds nobody gets a token whose session ended. Unset: half a lease."""
    drift: float = attrs.field(default=0.01)
    """By how much the clock of a node may run too fast or too slow: 0.01 is one second in a hundred."""

    @servers.validator
    def _check_servers(self, _: object, value: tuple[str, ...]) -> None:
        if value and len(value) not in (1, 3, 5, 7):
            raise SettingsError(f"tokens.servers has {len(value)} names: it must have 1, 3, 5 or 7, or none")
        if len(set(value)) < len(value):
            raise SettingsError("tokens.servers names a node twice")
        for name in value:
            if not is_node_name(name):
                raise SettingsError(f"tokens.servers has {name!r}: a name is 1-63 of letters, digits, '.', '-', '_'")

    @lease_s.validator
    def _check_lease(self, _: object, value: float) -> None:
        if not 0.2 <= value <= 600:
            raise SettingsError(f"tokens.lease is {value}: it must be seconds, from 0.2 to 600")

    @ttl_s.validator
    def _check_ttl(self, _: object, value: float) -> None:
        if not 0.6 <= value <= 86_400:
            raise SettingsError(f"tokens.ttl is {value}: it must be seconds, from 0.6 to 86400")

    @lock_delay_s.validator
    def _check_lock_delay(self, _: object, value: float | None) -> None:
        if value is not None and not 0 <= value <= 600:
            raise SettingsError(f"tokens.lock_delay is {value}: it must be seconds, from 0 to 600")

    @drift.validator
    def _check_drift(self, _: object, value: float) -> None:
        if not 0 <= value <= 0.2:
            raise SettingsError(f"tokens.drift is {value}: it must be 0 to 0.2")


@attrs.frozen
class TokenLimits:
    """How much a token server remembers."""

    token_sessions: int = attrs.field(default=10_000, validator=above_zero)
    """How many token sessions may be open in a network. The same on all token servers. One node gets half of
    them at the most, while there are others, and one connection a third."""
    tokens: int = attrs.field(default=100_000, validator=above_zero)
    """How many tokens a token server remembers: those that are held, waited for, or have data."""
    token_waiters: int = attrs.field(default=1000, validator=above_zero)
    """How many sessions may wait for one token."""


SECTIONS: Final = ((TokensConfig, "tokens"), (TokenLimits, "limits"))
"""Each with the first word of its keys."""
