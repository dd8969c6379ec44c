"""What one seed stands for: the fleet, its network, and everything that is planned, as plain values.

Knows: which faults there are, and that a scenario is a list of actions, which a scenario file can hold.  Does not know
how it is drawn (`draft`) or carried out (`stage`).

Invariant: a scenario is whole before it runs, and any of its planned actions may be left out: what does not apply when
its time comes is skipped.  So a failing one can be cut down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Final

import attrs

from distkv.mount import names
from distkv.sim.actions import (
    Action,
    Agents,
    Disks,
    Disturb,
    Gather,
    Happening,
    Later,
    PassTime,
    Recover,
    SetClock,
    Setting,
    SettingMap,
    Settings,
)
from distkv.sim.network import NetworkFaults
from distkv.sim.script import EXPECTED
from distkv.sim.verbs import command_of

REST_MS: Final = 60_000
"""Twelve clocks to come to rest: a ping that shows a difference takes up to three, what nobody has is given up after
three more."""
STALLS: Final = 0.01
"""So many of the commits take up to some seconds."""
OWN_EVERY: Final = 4
"""Of so many messages a node hears one of its own again."""


class Fault(StrEnum):
    """A kind of fault, by the name that switches it off or on."""

    LOSS = "loss"
    DUPLICATION = "duplication"
    DELAY = "delay"
    """Long and uneven, so that messages overtake each other."""
    LATE = "late"
    """Gossip that misses a node at first and comes by push/pull."""
    BREAKS = "breaks"
    """Connections that break."""
    SLOW_DISK = "slow-disk"
    PARTITION = "partition"
    ONE_WAY = "one-way"
    """A way that is cut in one direction only."""
    SWIZZLE = "swizzle"
    """Nodes cut off one by one, and back in another order."""
    PAUSE = "pause"
    """A process without time, whose agent's stream may run over."""
    KILL = "kill"
    POWER = "power"
    """A machine that stops; what was being written is torn."""
    WIPE = "wipe"
    """A disk that is lost while another node holds the same."""
    BURN = "burn"
    """A disk that is lost with the only copy of something."""
    ROLL_BACK = "roll-back"
    """A disk that is set back to an earlier state."""
    RETIRE = "retire"
    """A host that is said to be gone for good, and comes back all the same, or never stopped."""
    FULL_DISK = "full-disk"
    DRIFT = "drift"
    """Monotonic clocks that run fast or slow."""
    WALL_CLOCK = "wall-clock"
    """Wall clocks that are off, and jump."""
    AGENT = "agent"
    """The agent stops, and starts again."""
    BUDGET = "budget"
    """Agents carry little: what does not fit is announced."""
    NAMESAKE = "namesake"
    """A second server is started under a name that is taken."""
    FOREIGN = "foreign"
    """Another network comes onto the same agents."""
    LIES = "lies"
    """Gossip that no honest node sends."""
    SAME_ADDRESS = "same-address"
    """A node says that it is reached where another one is."""
    ROT = "rot"
    """A disk on which rows of the archive do not check any more, or two such disks."""
    HALF_OPEN = "half-open"
    """A machine that forgets its connections, of which the others are not told."""
    STALL = "stall"
    """A node that takes nothing of what is said to it over the server tree, although it is there."""
    TREES = "trees"
    """No fault, but a part of some seeds that is switched off alike, as services are by their names: the server tree.
    """


RARE: Final = frozenset({Fault.NAMESAKE, Fault.FOREIGN, Fault.LIES, Fault.SAME_ADDRESS, Fault.RETIRE})
"""What other people do wrong."""
PARTS: Final = frozenset({Fault.STALL, Fault.TREES})
"""What is drawn by generators of its own."""
SELDOM: Final = RARE | {Fault.ROT, Fault.HALF_OPEN}
"""Each seed takes one in four of these."""


def part_names() -> list[str]:
    """What can be left out of a seed: faults, and services."""
    return [*Fault, *names()]


@attrs.frozen
class Planned:
    """Something that happens at one time."""

    at_ms: int
    """After the fleet has grown."""
    action: Happening
    fault: Fault | None = None
    """Which fault it is; None: a write, a start, or the end of a fault, which harm nobody."""

    def __str__(self) -> str:
        return command_of(Later(self.at_ms, self.action))


@attrs.frozen
class Scenario:
    """Everything that one seed draws."""

    seed: int
    names: tuple[str, ...]
    """Of the hosts."""
    late_count: int
    """How many of them, the last ones, do not start with the others."""
    parts: Mapping[str, SettingMap]
    """The server tree and the services that it has, by name, with what each sets of the whole run."""
    core: SettingMap
    """What every node is told."""
    agents: Agents
    clocks: tuple[SetClock, ...]
    """Those that are not right from the beginning."""
    network: NetworkFaults
    disks: Disks
    quiet_ms: int
    """For so long there are no faults but those of the network."""
    length_ms: int
    planned: tuple[Planned, ...]
    """By time."""

    def only(self, numbers: Collection[int]) -> Scenario:
        """With these of the planned actions only."""
        wanted = frozenset(numbers)
        kept = tuple(one for number, one in enumerate(self.planned) if number in wanted)
        return attrs.evolve(self, planned=kept)

    @property
    def world(self) -> dict[str, Setting]:
        """What holds from the beginning to the end, by the fields of its settings."""
        world: dict[str, Setting] = {"seed": self.seed, "own_every": OWN_EVERY, "watchers": True}
        for settings in self.parts.values():
            world |= settings
        return world

    def actions(self) -> Iterator[Action]:
        """The whole run: the fleet grows, suffers faults and clients, and when all is well it must come to rest."""
        yield Settings(self.core)
        yield self.agents
        yield from self.clocks
        yield Disturb(NetworkFaults())
        yield Gather(self.names[: len(self.names) - self.late_count])
        yield Disturb(self.network)
        yield self.disks
        yield from (Later(one.at_ms, one.action) for one in self.planned)
        yield PassTime(self.length_ms)
        yield Recover(REST_MS)

    def text(self, *about: str) -> str:
        """A scenario file that goes the same way; `about`: lines of comment for its head."""
        head = [f"# {line}" for line in about]
        world = command_of(Settings(self.world))
        return "\n".join([*head, "show nothing", world, *map(command_of, self.actions()), EXPECTED]) + "\n"
