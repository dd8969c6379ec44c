"""Drawing what clients of the activity network do in a seed.

Knows: how likely each of their actions is.  Does not know what else a seed draws (`draft`).

Invariant: all is drawn from generators of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from distkv.sim.activity.actions import ChatAction, HangUp, JumpToNode, SayActivities, StartChat
from distkv.sim.service import Drawn

FIRST_SEED: Final = 3 * 10**12
"""From this seed on all have it, and none before it."""
PAUSE_MS: Final = 8000
BEGIN_MS: Final = 15_000
COUNTS: Final = (1, 1, 1, 1, 2, 2, 12)


def draw(seed: int, names: Sequence[str], length_ms: int) -> Drawn | None:
    """What a seed has of it; None: nothing."""
    if seed < FIRST_SEED:
        return None
    rng, planned = Random(f"activity {seed}"), list[tuple[int, ChatAction]]()
    jumps = rng.choice([0.0, 0.05, 0.3])
    for number in range(rng.randint(2, 6)):
        client, at_ms = f"u{number}", rng.randint(0, BEGIN_MS)
        planned.append((at_ms, StartChat(rng.choice(names), client)))
        while (at_ms := at_ms + rng.randint(1, PAUSE_MS)) < length_ms:
            if rng.random() < jumps:
                planned.append((at_ms, JumpToNode(client, rng.choice(names))))
            elif rng.random() < 0.03:
                planned.append((at_ms, HangUp(client)))
                planned.append((at_ms + rng.randint(1, 2 * PAUSE_MS), StartChat(rng.choice(names), client)))
            else:
                planned.append((at_ms, SayActivities(client, rng.choice(COUNTS))))
    settings = {"trees": True, "activity": True, "activity_copies": rng.choice([1, 2, 2, 3])}
    return Drawn(settings, sorted(planned, key=lambda one: one[0]))
