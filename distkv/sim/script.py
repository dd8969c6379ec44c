"""Scripts as values: what shall happen in a network, one action after the other, and the trace that is expected of it.

Knows: which actions there are.  Does not know how they are written (`grammar`), how carried out (`player`), nor whether
what is expected is right.

Invariant: a script never changes; `text` gives the file it was read from, but for the expected traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

from distkv.model.path import Path
from distkv.transport.diversion import Diversion
from distkv.wire.message import State

EXPECTED: Final = "----"
"""The line after which the expected trace stands, up to an empty line."""

Setting: TypeAlias = int | bool
SettingMap: TypeAlias = Mapping[str, Setting]


# -- commands -----------------------------------------------------------------------------------------------------


class Deed(StrEnum):
    """What is done to a node as a whole, by its verb."""

    STOP = "stop"
    CRASH = "crash"
    WIPE = "wipe"
    BACKUP = "backup"
    ROLL_BACK = "roll-back"
    PAUSE = "pause"
    RESUME = "resume"
    AGENT_DOWN = "agent-down"
    AGENT_UP = "agent-up"
    DISK_FULL = "disk-full"
    DISK_FREE = "disk-free"


@attrs.frozen
class Settings:
    """For the processes that start from here on."""

    values: SettingMap


@attrs.frozen
class Cluster:
    """A network of these nodes grows until all are ready; the trace begins then."""

    nodes: tuple[str, ...]


@attrs.frozen
class StartNode:
    """A process starts."""

    node: str
    init: object
    """The root's value when it founds a network; None: it does not."""
    settings: SettingMap
    named: str = ""
    """The node name of its server, when that is not the host's own."""


@attrs.frozen
class Rot:
    """A process ends, and what its disk has of a path rots."""

    node: str
    path: Path


@attrs.frozen
class ToNode:
    """Something befalls a node."""

    node: str
    deed: Deed


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


@attrs.frozen
class Write:
    """A client writes."""

    node: str
    path: Path
    value: object
    """None deletes."""
    is_new: bool = False
    ttl_s: float | None = None
    """After so long the value goes by itself."""


@attrs.frozen
class Fill:
    """A client writes as many values below a path."""

    node: str
    path: Path
    count: int


@attrs.frozen
class Decide:
    """A client decides about an open loser, by the node that wrote it."""

    node: str
    path: Path
    loser_of: str
    is_restored: bool
    """Whether it is written again; else it is dismissed."""


@attrs.frozen
class Retire:
    """A client says to one node that another one is gone for good."""

    node: str
    other: str
    is_forced: bool


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
class Show:
    """What the trace shows from here on."""

    tags: frozenset[str]
    nodes: frozenset[str]
    """Empty: of all nodes."""


@attrs.frozen
class ShowState:
    """Show what each node holds."""


Action: TypeAlias = (
    Settings
    | Cluster
    | StartNode
    | ToNode
    | Rot
    | Split
    | CutWay
    | Divert
    | Write
    | Fill
    | Decide
    | Retire
    | PassTime
    | Settle
    | WaitState
    | Show
    | ShowState
)


@attrs.frozen
class Command:
    """One line of a script."""

    line: int
    text: str
    action: Action


@attrs.frozen
class Block:
    """Some commands, and what is expected of them."""

    source: str
    """As it is written, comments included, up to the line before `----`."""
    commands: tuple[Command, ...]
    expected: tuple[str, ...]


@attrs.frozen
class Script:
    """A whole file."""

    name: str
    blocks: tuple[Block, ...]
    nodes: tuple[str, ...]
    """All that are named, in the order of their first mention."""
    world: SettingMap
    """Seed, members, and how long things take."""
    rest: str
    """Comments behind the last block."""

    def text(self, outputs: Sequence[Sequence[str]]) -> str:
        """The file with these traces in place of the expected ones."""
        parts = [
            "\n".join([block.source, EXPECTED, *output]) for block, output in zip(self.blocks, outputs, strict=True)
        ]
        return "\n\n".join([*parts, self.rest] if self.rest else parts) + "\n"
