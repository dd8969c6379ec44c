"""Drawing what users do in a seed.

Knows: how likely each of their actions is.  Does not know what else a seed draws (`draft`).

Invariant: all is drawn from generators of its own. A secret is that of one registration.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeAlias

from distkv.sim.accounts.actions import LoginUser, RegisterUser, RemoveUser, UserAction
from distkv.sim.service import Drawn

FIRST_SEED: Final = 2 * 10**12
"""From this seed on all have accounts, and none before it."""
DRIFT: Final = 6
"""Percent: clocks of hosts run up to 5 % fast or slow, and both ends of a lease lose a millisecond by rounding."""
NAMES: Final = ("ann", "bob", "cid", "dot")
STORM_MS: Final = (0, 5, 50, 3000)
"""Within this time all register the same name."""
LOGIN_MS: Final = (0, 10, 100, 2000, 20_000)
"""So long after a registration began somebody logs in."""

Planned: TypeAlias = tuple[int, UserAction]
"""An action, and when it happens (ms)."""


def draw(seed: int, names: Sequence[str], length_ms: int) -> Drawn | None:
    """What a seed has of accounts: token servers on these hosts, and users; None: it has none."""
    if seed < FIRST_SEED:
        return None
    rng = Random(f"accounts {seed}")
    servers = rng.choice([number for number in (3, 3, 5) if number <= len(names)] or [1])
    lease_ms = rng.choice([1000, 2000, 5000])
    users = [one for name in NAMES[: rng.randint(1, 4)] for one in draw_user(rng, name, names, length_ms)]
    settings = {
        "trees": True, "tokens": servers, "lease_ms": lease_ms, "ttl_ms": 3 * lease_ms, "drift": DRIFT,
        "accounts": True,
    }  # fmt: skip
    return Drawn(settings, users)


def draw_user(rng: Random, name: str, names: Sequence[str], length_ms: int) -> list[Planned]:
    """Storms of registrations of one name, logins with each secret, and perhaps a removal between."""
    planned: list[Planned] = []
    for storm in range(rng.randint(2, 6)):
        at_ms, within_ms = rng.randint(0, length_ms), rng.choice(STORM_MS)
        for count in range(rng.randint(2, 5)):
            secret, begun_ms = f"{name}-{storm}-{count}", at_ms + rng.randint(0, within_ms)
            planned.append((begun_ms, RegisterUser(rng.choice(names), name, secret)))
            for _ in range(rng.randint(0, 4)):
                login_ms = begun_ms + rng.randint(0, rng.choice(LOGIN_MS))
                planned.append((login_ms, LoginUser(rng.choice(names), name, secret)))
        if rng.random() < 0.3:
            planned.append((at_ms + rng.randint(0, 10_000), RemoveUser(rng.choice(names), name)))
    return [(min(at_ms, length_ms), action) for at_ms, action in planned]
