"""Drawing what clients of the activity network do in a seed.

Knows: how likely each of their actions is.  Does not know what else a seed draws (`draft`).

Invariant: all is drawn from generators of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from distkv.sim.actions import Happening, StartNode
from distkv.sim.activity.actions import EndInOrder, HangUp, JumpToNode, SayActivities, StartChat
from distkv.sim.service import Drawn

FIRST_SEED: Final = 3 * 10**12
"""From this seed on all have it, and none before it."""
PAUSE_MS: Final = 8000
BEGIN_MS: Final = 15_000
QUIET_MS: Final = 20_000
"""So long no node ends."""
END_MS: Final = 16_000
"""One that is told to end has ended so much later."""
COUNTS: Final = (1, 1, 1, 1, 2, 2, 12)


def draw(seed: int, names: Sequence[str], length_ms: int) -> Drawn | None:
    """What a seed has of it; None: nothing."""
    if seed < FIRST_SEED:
        return None
    rng, planned = Random(f"activity {seed}"), list[tuple[int, Happening]]()
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
    planned += _ends(seed, names, length_ms)
    settings = {"trees": True, "activity": True, "activity_copies": rng.choice([1, 2, 2, 3])}
    return Drawn(settings, sorted(planned, key=lambda one: one[0]))


def _ends(seed: int, names: Sequence[str], length_ms: int) -> list[tuple[int, Happening]]:
    """Nodes that are told to end, and start again."""
    rng, planned = Random(f"ends of activity {seed}"), list[tuple[int, Happening]]()
    for _ in range(rng.choice([0, 1, 1, 3])):
        name, at_ms = rng.choice(names), rng.randint(QUIET_MS, max(QUIET_MS, length_ms - END_MS))
        planned.append((at_ms, EndInOrder(name)))
        planned.append((at_ms + rng.choice([2000, 12_000, END_MS, 40_000]), StartNode(name)))
    return planned
