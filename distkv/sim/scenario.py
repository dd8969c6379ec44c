"""What one seed stands for: the fleet, its network, and everything that shall happen, as plain values.

Knows: which faults and actions there are, and how a scenario is written for people.  Does not know how it is drawn
(`draft`) or carried out (`stage`).

Invariant: a scenario is whole before it runs, and any of its actions may be left out: what does not apply when its time
comes is skipped.  So a failing one can be cut down.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

import attrs

from distkv.sim.network import NetworkFaults


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


RARE: Final = frozenset({Fault.NAMESAKE, Fault.FOREIGN, Fault.LIES, Fault.SAME_ADDRESS, Fault.RETIRE})
"""What other people do wrong."""
SELDOM: Final = RARE | {Fault.ROT}
"""Each seed takes one in four of these."""


class Verb(StrEnum):
    """What may happen."""

    START = "starts"
    SET = "sets"
    DELETE = "deletes"
    CHECKED = "sets if unchanged"
    SWAP = "swaps links of the ring"
    BULK = "stores many at once"
    SET_TTL = "sets for some seconds"
    BURST = "stores very many, one after another"
    RESTORE = "restores an open loser"
    DISMISS = "dismisses an open loser"
    PARTITION = "is cut off with some others"
    CUT = "is not heard by"
    SWIZZLE_OUT = "is cut off from all"
    SWIZZLE_IN = "is back among all"
    HEAL = "network heals"
    PAUSE = "pauses"
    RESUME = "goes on"
    KILL = "is killed"
    POWER = "loses power"
    WIPE = "loses its disk, of which there is a copy"
    BURN = "loses its disk"
    COPY = "is backed up"
    ROLL_BACK = "is set back to its backup"
    RETIRE = "is said to be gone for good, and stops or not"
    FILL = "has no disk space left"
    MAKE_SPACE = "has disk space again"
    DRIFT = "clock runs at another rate"
    WALL_JUMP = "wall clock jumps"
    AGENT_DOWN = "agent stops"
    AGENT_UP = "agent starts"
    NAMESAKE = "gets a namesake"
    NAMESAKE_GONE = "loses its namesake"
    FOREIGN = "sees another network come"
    FOREIGN_GONE = "sees another network go"
    LIE = "is lied about"
    SAME_ADDRESS = "starts again with another one's address"
    OWN_ADDRESS = "starts again with its own address"
    ROT = "stops, and its disk rots"
    ROT_TWO = "stops with another one, and both disks rot"


DECISIONS: Final = frozenset({Verb.RESTORE, Verb.DISMISS})
WRITES: Final = DECISIONS | {Verb.SET, Verb.DELETE, Verb.CHECKED, Verb.SWAP, Verb.BULK, Verb.BURST, Verb.SET_TTL}

FAULT_OF: Final[dict[Verb, Fault]] = {
    Verb.PARTITION: Fault.PARTITION,
    Verb.CUT: Fault.ONE_WAY,
    Verb.SWIZZLE_OUT: Fault.SWIZZLE,
    Verb.SWIZZLE_IN: Fault.SWIZZLE,
    Verb.PAUSE: Fault.PAUSE,
    Verb.KILL: Fault.KILL,
    Verb.POWER: Fault.POWER,
    Verb.WIPE: Fault.WIPE,
    Verb.BURN: Fault.BURN,
    Verb.COPY: Fault.ROLL_BACK,
    Verb.ROLL_BACK: Fault.ROLL_BACK,
    Verb.RETIRE: Fault.RETIRE,
    Verb.FILL: Fault.FULL_DISK,
    Verb.DRIFT: Fault.DRIFT,
    Verb.WALL_JUMP: Fault.WALL_CLOCK,
    Verb.AGENT_DOWN: Fault.AGENT,
    Verb.BURST: Fault.SLOW_DISK,
    Verb.NAMESAKE: Fault.NAMESAKE,
    Verb.FOREIGN: Fault.FOREIGN,
    Verb.LIE: Fault.LIES,
    Verb.SAME_ADDRESS: Fault.SAME_ADDRESS,
    Verb.ROT: Fault.ROT,
    Verb.ROT_TWO: Fault.ROT,
}
"""Which fault an action is. The others are writes, starts, or ends of a fault, which harm nobody."""


@attrs.frozen
class Action:
    """Something that happens to one host at one time."""

    at_ms: int
    """After the fleet has grown."""
    verb: Verb
    host: int
    number: int
    """What else there is to choose: which path, which other host, which side."""

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:9.3f} s  n{self.host} {self.verb} ({self.number})"


@attrs.frozen
class Scenario:
    """Everything that one seed draws."""

    seed: int
    host_count: int
    late_count: int
    """How many of them do not start with the others."""
    path_count: int
    chain_length: int
    pull_events: int
    delete_retention_ms: int
    commit_ms: tuple[int, int]
    packets_per_s: float | None
    """What the agents carry; None: everything."""
    rates: tuple[float, ...]
    """How fast each host's clock runs."""
    wall_off_s: tuple[float, ...]
    stream_events: int
    doubts_ms: int
    """How long agents take to see that another one is gone, or back."""
    network: NetworkFaults
    quiet_ms: int
    """For so long there are no faults but those of the network."""
    length_ms: int
    actions: tuple[Action, ...]
    """By time."""

    @property
    def names(self) -> list[str]:
        return [f"n{number}" for number in range(self.host_count)]

    def only(self, numbers: Collection[int]) -> Scenario:
        """With these actions only."""
        wanted = frozenset(numbers)
        kept = tuple(action for number, action in enumerate(self.actions) if number in wanted)
        return attrs.evolve(self, actions=kept)

    def text(self) -> list[str]:
        """For people, a line for each thing."""
        nodes, late, paths = self.host_count, self.late_count, self.path_count
        carry = "everything" if self.packets_per_s is None else f"{self.packets_per_s} packets/s"
        head = [
            f"{nodes} nodes, {late} of which join later; {paths} paths",
            f"chains of {self.chain_length} links, pulls of {self.pull_events} ticks, commits of {self.commit_ms} ms",
            f"deletions are kept for {self.delete_retention_ms / 1000:g} s",
            f"agents carry {carry}, their streams hold {self.stream_events} events, they doubt for {self.doubts_ms} ms",
            f"clock rates {self.rates}, wall clocks off by {[round(off_s) for off_s in self.wall_off_s]} s",
            f"network: {self.network}",
        ]
        return head + [str(action) for action in self.actions]
