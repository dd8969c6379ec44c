"""Drawing what clients of tokens do in a seed.

Knows: how likely each of their actions is.  Does not know what else a seed draws (`draft`).

Invariant: all is drawn from generators of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeAlias

from distkv.sim.service import Drawn
from distkv.sim.tokens.actions import (
    AcquireToken,
    BreakToken,
    CloseSession,
    FreezeClient,
    ReleaseToken,
    SetData,
    SetServers,
    StartClient,
    TokenAction,
)

SHARE: Final = 0.2
"""So many of the seeds have tokens."""
DRIFT: Final = 6
"""Percent: clocks of hosts run up to 5 % fast or slow, and both ends of a lease lose a millisecond by rounding."""
RATES: Final = (1.0, 0.97, 1.04)
OPEN_MS: Final = 10_000
"""Every so often a client without a session opens one."""
PAUSE_MS: Final = 6000
"""Between two things that a client does, on average half of this passes."""
WRITES: Final = (0, 0, 1, 2, 3)
"""So often somebody who wants a token changes its data, if he gets it in time."""
WRITTEN_MS: Final = 4000
"""So long after he asked at the most."""
CHANGED: Final = (0, 0, 1, 2, 4)
"""So often somebody asks for another list of servers, in the first three quarters of a seed."""


Planned: TypeAlias = tuple[int, TokenAction]
"""An action, and when it happens (ms)."""


def draw(seed: int, names: Sequence[str], length_ms: int) -> Drawn | None:
    """What a seed has of tokens: servers on some of these hosts, and clients; None: it has none."""
    rng = Random(f"tokens {seed}")
    has_tokens = rng.random() < SHARE
    servers = rng.choice([number for number in (1, 3, 3, 5) if number <= len(names)])
    lease_ms, leases = rng.choice([1000, 2000, 5000]), rng.choice([3, 4, 6])
    if not has_tokens:
        return None
    ttl_ms = lease_ms * leases
    wishes = draw_clients(Random(f"token clients {seed}"), names, ttl_ms, length_ms)
    data = draw_data(Random(f"token data {seed}"), wishes)
    changes = draw_changes(Random(f"token changes {seed}"), names, length_ms)
    settings = {"tokens": servers, "lease_ms": lease_ms, "ttl_ms": ttl_ms, "drift": DRIFT}
    return Drawn(settings, [*wishes, *data, *changes])


def draw_clients(rng: Random, names: Sequence[str], ttl_ms: int, length_ms: int) -> list[Planned]:
    """What a few clients do with a few tokens on these hosts."""
    planned: list[Planned] = []
    tokens = ["t", "u", "v"][: rng.randint(1, 3)]
    has_shared = rng.random() < 0.5
    for number in range(rng.randint(2, 5)):
        client, rate = f"c{number}", rng.choice(RATES)
        at_ms = rng.randint(0, 10_000)
        opens = [StartClient(rng.choice(names), client, None, rate) for _ in range(at_ms, length_ms, OPEN_MS)]
        planned += [(at_ms + at * OPEN_MS, one) for at, one in enumerate(opens)]
        while at_ms < length_ms:
            at_ms += rng.randint(1, PAUSE_MS)
            action = _action(rng, client, rng.choice(tokens), rng.choice(names), ttl_ms, has_shared=has_shared)
            planned.append((min(at_ms, length_ms), action))
    return planned


def draw_data(rng: Random, planned: Sequence[Planned]) -> list[Planned]:
    """Changes of the data of tokens, some time after clients want these."""
    found: list[Planned] = []
    for at_ms, action in planned:
        if isinstance(action, AcquireToken):
            client, token = action.client, action.token
            for _ in range(rng.choice(WRITES)):
                count = len(found)
                change = SetData(client, token, count, keeps=count % 3 > 0)
                found.append((at_ms + rng.randint(0, WRITTEN_MS), change))
    return found


def draw_changes(rng: Random, names: Sequence[str], length_ms: int) -> list[Planned]:
    """Other lists of token servers that somebody asks for, now and then one while another change is under way."""
    found: list[Planned] = []
    at_ms = 0
    for _ in range(rng.choice(CHANGED)):
        at_ms = rng.choice([at_ms, rng.randint(2000, max(2000, length_ms * 3 // 4))])
        count = rng.choice([number for number in (1, 3, 3, 5) if number <= len(names)])
        found.append((max(2000, at_ms), SetServers(rng.choice(names), tuple(sorted(rng.sample(names, count))))))
    return found


def _action(rng: Random, client: str, token: str, node: str, ttl_ms: int, *, has_shared: bool) -> TokenAction:
    draw = rng.random()
    wait_ms, hold_ms = rng.choice([None, 500, 5000, 2 * ttl_ms]), rng.choice([None, 50, 500, 3000, 3000, ttl_ms])
    is_shared, freeze_ms = rng.random() < 0.4 and has_shared, rng.choice([100, 2000, ttl_ms, 2 * ttl_ms])
    if draw < 0.04:
        return FreezeClient(client, freeze_ms)
    if draw < 0.08:
        return BreakToken(node, token)
    if draw < 0.11:
        return CloseSession(client)
    if draw < 0.2:
        return ReleaseToken(client, token)
    return AcquireToken(client, token, is_shared, wait_ms, hold_ms, writes=True)
