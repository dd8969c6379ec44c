"""Drawing what clients of topics do in a seed.

Knows: how likely each of their actions is.  Does not know what else a seed draws (`draft`).

Invariant: all is drawn from generators of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeAlias

from distkv.sim.service import Drawn
from distkv.sim.topics.actions import (
    CrashClient,
    EndConsumer,
    LimitTopic,
    MoveClient,
    PutOnce,
    SaveState,
    SendMessages,
    StartConsumer,
    StartProducer,
    StateLeft,
    TopicAction,
    TwinClient,
)

FIRST_SEED: Final = 10**12
"""From this seed on all have topics, and none before it."""
LENGTH_MS: Final = 90_000
"""Of such a seed: clients of topics ask all the time, and each of their questions is some steps of two nodes."""
DRIFT: Final = 6
"""Percent: clocks of hosts run up to 5 % fast or slow, and both ends of a lease lose a millisecond by rounding."""
PAUSE_MS: Final = 5000
"""Between two things that a client does, on average half of this passes."""
BEGIN_MS: Final = 15_000
"""Until then clients begin."""
COUNTS: Final = (*(1,) * 10, *(2,) * 6, *(5,) * 3, 40)
"""So many messages are sent at once; the last is more than may be unanswered."""
WAITS_MAX: Final = 12
CRASH_MS: Final = (50, 1000, 8000, 15_000)

Planned: TypeAlias = tuple[int, TopicAction]
"""An action, and when it happens (ms)."""


def draw(seed: int, names: Sequence[str], length_ms: int) -> Drawn | None:
    """What a seed has of topics: some servers on these hosts, and clients; None: it has none."""
    if seed < FIRST_SEED:
        return None
    rng = Random(f"topics {seed}")
    servers = rng.choice([len(names), len(names), max(1, len(names) - 1)])
    lease_ms, replicas = rng.choice([1000, 2000, 2000, 5000]), rng.choice([1, 2, 2, 2, 3])
    away_bytes = rng.choice([5000, 32 << 20])
    topics = ["jobs", "news", "bills"][: rng.randint(1, 3)]
    producers = draw_producers(Random(f"topic producers {seed}"), names, topics, length_ms)
    consumers = draw_consumers(Random(f"topic consumers {seed}"), names, topics, length_ms)
    others = draw_others(Random(f"topic others {seed}"), names, topics, length_ms)
    settings = {
        "trees": True, "topics": servers, "topic_replicas": replicas, "topic_lease_ms": lease_ms, "topic_drift": DRIFT,
        "topic_away": away_bytes,
    }  # fmt: skip
    return Drawn(settings, [*producers, *consumers, *others])


def draw_producers(rng: Random, names: Sequence[str], topics: Sequence[str], length_ms: int) -> list[Planned]:
    """What a few producers do."""
    planned: list[Planned] = []
    for number in range(rng.randint(1, 4)):
        client, at_ms = f"p{number}", rng.randint(0, BEGIN_MS)
        planned.append((at_ms, StartProducer(rng.choice(names), client, rng.choice(topics))))
        is_wild = rng.random() < 0.3
        while (at_ms := at_ms + rng.randint(1, PAUSE_MS)) < length_ms:
            trouble = _trouble(rng, client, f"{client}-{at_ms}", names, is_wild=is_wild)
            planned.append((at_ms, trouble or SendMessages(client, rng.choice(COUNTS))))
    return planned


def draw_consumers(rng: Random, names: Sequence[str], topics: Sequence[str], length_ms: int) -> list[Planned]:
    """What a few consumers do."""
    planned: list[Planned] = []
    for number in range(rng.randint(1, 4)):
        client, at_ms = f"c{number}", rng.randint(0, BEGIN_MS)
        start = StartConsumer(rng.choice(names), client, rng.choice(topics), is_stateless=rng.random() < 0.3)
        planned.append((at_ms, start))
        is_wild, leaves = rng.random() < 0.3, rng.random() < 0.2
        while (at_ms := at_ms + rng.randint(1, 2 * PAUSE_MS)) < length_ms:
            trouble = _trouble(rng, client, f"{client}-{at_ms}", names, is_wild=is_wild)
            if leaves and rng.random() < 0.1:
                planned += [(at_ms, EndConsumer(client)), (at_ms + rng.randint(1, PAUSE_MS), start)]
            elif trouble is not None:
                planned.append((at_ms, trouble))
    return planned


def draw_others(rng: Random, names: Sequence[str], topics: Sequence[str], length_ms: int) -> list[Planned]:
    """Puts by nobody in particular; and now and then a topic that keeps less from now on."""
    planned: list[Planned] = []
    for count in range(rng.choice([0, 5, 40])):
        at_ms = rng.randint(0, length_ms)
        planned.append((at_ms, PutOnce(rng.choice(names), rng.choice(topics), f"plain-{count}")))
    if rng.random() < 0.2:
        limit = LimitTopic(rng.choice(names), rng.choice(topics), None, rng.choice([None, 5000]), 10_000)
        planned.append((rng.randint(0, length_ms), limit))
    return planned


def _trouble(rng: Random, client: str, twin: str, names: Sequence[str], *, is_wild: bool) -> TopicAction | None:
    """What befalls a client, if anything does. Only the states of wild ones are set back, lost or copied."""
    draw, for_ms, waits = rng.random(), rng.choice(CRASH_MS), rng.randint(0, WAITS_MAX)
    left, node = rng.choice([StateLeft.OLD, StateLeft.NONE]), rng.choice(names)
    if draw < 0.1:
        return CrashClient(client, for_ms, waits=waits)
    if draw < 0.2:
        return MoveClient(client, node)
    if not is_wild or draw > 0.32:
        return None
    if draw < 0.25:
        return SaveState(client)
    return CrashClient(client, for_ms, left, waits) if draw < 0.29 else TwinClient(node, client, twin)
