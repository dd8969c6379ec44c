"""Drawing the server tree of a seed, what nodes say over it, and what befalls it.

Knows: how likely everything is.  Does not know what else a seed draws (`draft`).

Invariant: all is drawn from generators of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Final

from distkv.sim.actions import Deed, SettingMap, StartNode, TellAll, ToNode
from distkv.sim.scenario import Fault, Planned

SHARE: Final = 0.25
"""So many of the seeds have a tree."""
BURST: Final = 400
"""More at once than may wait on an edge."""


def draw_tree(seed: int) -> SettingMap | None:
    """How many children a node takes, and how often it announces itself; None: there is no tree."""
    rng = Random(f"tree {seed}")
    has_tree, fanout, announce_ms = rng.random() < SHARE, rng.choice([16, 16, 3, 2, 1]), rng.choice([2000, 5000])
    return {"trees": True, "children": fanout, "announce_ms": announce_ms} if has_tree else None


def draw_course(
    seed: int, names: Sequence[str], quiet_ms: int, length_ms: int, off: Collection[str]
) -> list[Planned]:
    """What is said, and what goes wrong."""
    rng = Random(f"course of tree {seed}")
    planned = [
        Planned(rng.randint(quiet_ms, length_ms), TellAll(rng.choice(names), f"w{number}", rng.choice([1, 1, 3])))
        for number in range(rng.choice([10, 40]))
    ]
    for fault in (Fault.STALL, Fault.STALL, Fault.HALF_OPEN, Fault.KILL, Fault.PAUSE):
        for _ in range(rng.choice([0, 0, 1, 2])):
            found = _befalls(rng, fault, names, rng.randint(quiet_ms, length_ms))
            planned += [] if fault in off else found
    return planned


def _befalls(rng: Random, fault: Fault, names: Sequence[str], at_ms: int) -> list[Planned]:
    name, other, end_ms = rng.choice(names), rng.choice(names), at_ms + rng.choice([1000, 5000, 20_000])
    match fault:
        case Fault.STALL:  # with much to be told, so that something waits
            said = [TellAll(name, "burst", BURST), TellAll(other, "burst", BURST)]
            begin = Planned(at_ms, ToNode(name, Deed.STALL), fault)
            return [begin, *(Planned(at_ms + 1, one) for one in said), Planned(end_ms, ToNode(name, Deed.FLOW))]
        case Fault.KILL:
            return [Planned(at_ms, ToNode(name, Deed.STOP), fault), Planned(end_ms, StartNode(name))]
        case Fault.PAUSE:
            return [Planned(at_ms, ToNode(name, Deed.PAUSE), fault), Planned(end_ms, ToNode(name, Deed.RESUME))]
        case _:
            return [Planned(at_ms, ToNode(name, Deed.HALF_OPEN), fault)]
