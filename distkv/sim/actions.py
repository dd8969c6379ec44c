"""What can happen in a simulated network: one set of actions, for scenario files and for what a seed draws.

Knows: which actions there are.  Does not know how they are written (`grammar`), nor how they are carried out (`stage`).

Invariant: an action is a plain value; nothing of it depends on what happened before.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, TypeAlias

import attrs

from distkv.model.fence import Fence
from distkv.model.path import Path
from distkv.model.state import State
from distkv.sim.agent import STREAM_EVENTS
from distkv.sim.network import NetworkFaults
from distkv.transport.diversion import Diversion

Setting: TypeAlias = int | bool
SettingMap: TypeAlias = Mapping[str, Setting]

# -- the network --------------------------------------------------------------------------------------------------


@attrs.frozen
class Settings:
    """For the processes that start from here on."""

    values: SettingMap


@attrs.frozen
class Agents:
    """What the Serf agents of some nodes are like."""

    nodes: tuple[str, ...]
    stream_events: int = STREAM_EVENTS
    """What an agent's stream holds for a server that does not read."""
    doubts_ms: int = 0
    """For how long another agent must be silent, or there again, before it is taken for that."""
    packets_per_s: float | None = None
    """What the agents carry; None: everything."""


@attrs.frozen
class Disturb:
    """What becomes of gossip and of connections from here on."""

    faults: NetworkFaults


@attrs.frozen
class Disks:
    """How long commits take from here on: at least, at most; and how often one stalls for some seconds."""

    commit_ms: tuple[int, int]
    stalls: float = 0.0


@attrs.frozen
class Cluster:
    """A network of these nodes grows until all are ready and at rest; the trace begins then."""

    nodes: tuple[str, ...]


@attrs.frozen
class Gather:
    """A network of these nodes grows until all serve, and no longer."""

    nodes: tuple[str, ...]


# -- one node -----------------------------------------------------------------------------------------------------


class Deed(StrEnum):
    """What is done to a node as a whole, by its verb."""

    STOP = "stop"
    CRASH = "crash"
    WIPE = "wipe"
    BURN = "burn"
    BACKUP = "backup"
    ROLL_BACK = "roll-back"
    PAUSE = "pause"
    RESUME = "resume"
    AGENT_DOWN = "agent-down"
    AGENT_UP = "agent-up"
    DISK_FULL = "disk-full"
    DISK_SHORT = "disk-short"
    DISK_FREE = "disk-free"
    ISOLATE = "isolate"
    REJOIN = "rejoin"
    NAMESAKE = "namesake"
    NAMESAKE_GONE = "namesake-gone"
    OWN_ADDRESS = "own-address"
    HALF_OPEN = "half-open"
    STALL = "stall"
    FLOW = "flow"


@attrs.frozen
class ToNode:
    """Something befalls a node."""

    node: str
    deed: Deed


@attrs.frozen
class StartNode:
    """A process starts."""

    node: str
    init: object = None
    """The root's value when it founds a network; None: it does not."""
    settings: SettingMap = attrs.field(factory=dict)
    named: str = ""
    """The node name of its server, when that is not the host's own."""


@attrs.frozen
class SetClock:
    """A node's clocks change."""

    node: str
    rate: float | None = None
    """Milliseconds of its monotonic clock per true one from here on; None: as before."""
    jump_s: float = 0.0
    """How far its wall clock jumps."""


@attrs.frozen
class Move:
    """A process ends, and starts again with the address of another one."""

    node: str
    other: str


@attrs.frozen
class Rot:
    """A process ends, and what its disk has of a path rots."""

    node: str
    path: Path


@attrs.frozen
class RotSome:
    """Processes end, and on their disks so many paths rot, which chance chooses; never the only copies of one."""

    nodes: tuple[str, ...]
    """One or two."""
    count: int


# -- between nodes ------------------------------------------------------------------------------------------------


@attrs.frozen
class Split:
    """Only nodes of one side reach each other from now on. No side: all reach all."""

    sides: tuple[tuple[str, ...], ...]


@attrs.frozen
class CutWay:
    """Nothing goes from one node to the other any more."""

    sender: str
    receiver: str


@attrs.frozen
class Divert:
    """Gossip is lost, or held up. None: no more."""

    diversion: Diversion | None


# -- strangers ----------------------------------------------------------------------------------------------------


@attrs.frozen
class Foreign:
    """Another network comes onto the same agents, or goes."""

    is_there: bool


class Untruth(StrEnum):
    """Gossip that no honest node sends."""

    UNKNOWN_WRITER = "unknown-writer"
    TICK_AHEAD = "tick-ahead"
    BOTH_AHEAD = "both-ahead"
    TOCK_AHEAD = "tock-ahead"
    TOLD_TICKS = "told-ticks"
    UNKNOWN_PING = "unknown-ping"


@attrs.frozen
class Lie:
    """The agent of a node is told such gossip, made from what the node shows."""

    node: str
    what: Untruth


# -- clients ------------------------------------------------------------------------------------------------------


class Condition(StrEnum):
    """On what a client writes. All but the first hold: the client has just read. Where nothing is, each means NEW."""

    NEW = "new"
    """Nothing is there."""
    CHAIN = "if-chain"
    """The path has the change that it has."""
    VALUE = "if-value"
    """It has the value that it has."""
    SAME = "same"
    """The value that it has is written again, which changes nothing."""


@attrs.frozen
class Write:
    """A client writes."""

    node: str
    path: Path
    value: object
    """None deletes."""
    condition: Condition | None = None
    ttl_s: float | None = None
    """After so long the value goes by itself."""
    fence: Fence | None = None
    """Under which it is written."""
    refence: bool = False
    """Whether it lifts the fence."""


@attrs.frozen
class Fill:
    """A client writes as many values below a path, under numbers."""

    node: str
    path: Path
    count: int
    first: int = 0
    """The first number."""
    over: int | None = None
    """The numbers begin again after so many; None: never."""
    is_batch: bool = False
    """Whether all are one batch."""


@attrs.frozen
class Swap:
    """A client swaps links of the ring (`workload`), from this place on; the first one makes the ring."""

    node: str
    number: int


@attrs.frozen
class Decide:
    """A client decides about an open loser, by the node that wrote it."""

    node: str
    path: Path
    loser_of: str
    is_restored: bool
    """Whether it is written again; else it is dismissed."""


@attrs.frozen
class DecideAny:
    """A client decides about one of the open losers that a node shows, if there are any."""

    node: str
    number: int
    """Which one: its remainder by their count."""
    is_restored: bool
    is_checked: bool
    """Only if the winner is still the one that is shown."""


@attrs.frozen
class TellAll:
    """A service of a node says something to all, over the server tree."""

    node: str
    text: str
    times: int = 1


@attrs.frozen
class Retire:
    """A client says that a node is gone for good."""

    node: str
    """To whom; empty: to any that serves."""
    other: str
    is_forced: bool


# -- services -----------------------------------------------------------------------------------------------------


@attrs.frozen
class ServiceAction:
    """What clients of a service do, and what befalls them. Each service has its own."""

    service: ClassVar[str]
    """Its name."""


@attrs.frozen
class ShowService:
    """Show what nodes know of a service. Each service has its own."""

    service: ClassVar[str]


# -- time ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class PassTime:
    """Time passes."""

    for_ms: int


@attrs.frozen
class Settle:
    """Time passes until all nodes that run hold the same and serve."""

    within_ms: int


@attrs.frozen
class WaitState:
    """Time passes until a node is in a state."""

    node: str
    state: State
    within_ms: int


@attrs.frozen
class Recover:
    """All faults end, who does not run starts, and time passes until all hold the same; then the rules that speak of
    the end are looked at."""

    within_ms: int


@attrs.frozen
class Later:
    """Something happens in a while, where it applies then and harms nobody beyond repair (`fairness`)."""

    after_ms: int
    action: Happening


# -- what is shown ------------------------------------------------------------------------------------------------


@attrs.frozen
class Show:
    """What the trace shows from here on."""

    tags: frozenset[str]
    nodes: frozenset[str] = frozenset()
    """Empty: of all nodes."""


@attrs.frozen
class ShowState:
    """Show what each node holds."""


Request: TypeAlias = ServiceAction | Write | Fill | Swap | Decide | DecideAny | Retire | TellAll
"""What clients ask for."""

Happening: TypeAlias = (
    ToNode | StartNode | SetClock | Move | Rot | RotSome | Split | CutWay | Divert | Foreign | Lie | Request
)
"""What takes no time."""

Action: TypeAlias = (
    Happening
    | Settings
    | Agents
    | Disturb
    | Disks
    | Cluster
    | Gather
    | PassTime
    | Settle
    | WaitState
    | Recover
    | Later
    | Show
    | ShowState
    | ShowService
)
