"""What `distkv doctor` finds out, and what it makes of it: values.

Knows: which facts a check may look at.  Does not know where they come from, nor what they mean.

Invariant: a fact that could not be found out is None, or absent, and `failure` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import attrs


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """It works, but not as well or as safely as it should."""
    FAIL = "fail"
    """It does not work."""


@attrs.frozen
class Finding:
    """One line of the report."""

    check: str
    level: Level
    says: str
    do: str = ""
    """What to do next; empty when there is nothing to do."""


class Trouble(StrEnum):
    """Why an agent says nothing."""

    GONE = "gone"
    """Nobody answers, or no agent."""
    SILENT = "silent"
    """It takes connections and answers nothing."""
    KEY = "key"
    """It wants another key, or none."""


@attrs.frozen
class AgentFacts:
    """What the Serf agent says."""

    where: str
    trouble: Trouble | None = None
    """Set when it says nothing; then all below but `failure` is empty."""
    failure: str = ""
    """That in words."""
    protocol: int = 0
    event_bytes: int = 0
    """The largest event (name and payload) that distkv sends through it."""
    queues: Mapping[str, int] = attrs.field(factory=dict)
    """Its backlogs, by name."""
    health: int = 0
    """Its own measure of how late it is; 0 is well."""
    carriers: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """For each node the agents, alive, beside which it says it is."""
    alive: int = 1
    """How many agents are alive, itself included."""
    others: int = 0
    """How many agents are alive and beside no node."""
    failed: tuple[str, ...] = ()
    """The agents that it takes for dead."""


@attrs.frozen
class Clock:
    """A node's clock, as far as a round trip tells."""

    ahead_s: float
    """Of this host's; below 0 it is behind."""
    error_s: float
    """How much that may be off: half the round trip."""


@attrs.frozen
class PeerFacts:
    """A node that another one knows."""

    name: str
    addr: str
    is_alive: bool


@attrs.frozen
class LinkFacts:
    """The connection of a node to another one."""

    name: str
    """The other one."""
    addr: str
    is_up: bool
    reason: str = ""
    """Why that one cannot be dialled; empty: it can, or nobody tried."""


@attrs.frozen
class DamageFacts:
    """What a node knows of damage on its disk."""

    scrubbed: float | None
    """When it looked at everything last, in seconds since 1970; None: it did not yet."""
    lost_count: int = 0
    """How many places were damaged and did not come back."""
    lost: tuple[str, ...] = ()
    """Some of them: their paths, or what else is known."""


@attrs.frozen
class GroupFacts:
    """What a node says of the transport swim."""

    udp_blocked: tuple[str, ...] = ()
    """The nodes that it hears on links only."""
    dropped_seal: int = 0
    """Datagrams that did not open."""
    told_dead: int = 0
    """How often it heard that it was dead."""
    reason: str = ""
    """Why it hears nobody."""
    mapped: tuple[str, ...] = ()
    """The nodes that ask it from another address than they advertise."""


@attrs.frozen
class NodeFacts:
    """What a node says of itself."""

    where: str
    failure: str = ""
    """Why it says nothing; then all below is empty."""
    name: str = ""
    version: str = ""
    state: str = ""
    waits_for: str = ""
    network: str | None = None
    clock: Clock | None = None
    settings: Mapping[str, object] = attrs.field(factory=dict)
    """Those that all nodes should have alike, by key."""
    delivery_s: tuple[float, float] | None = None
    """How long gossip takes from it to another node: at least, at most, as far as its pings showed."""
    partitions: int = 1
    """The most sides of a split that met there at one time."""
    missing: tuple[str, ...] = ()
    """The nodes of which it misses changes that somebody may still have."""
    peers: tuple[PeerFacts, ...] = ()
    links: tuple[LinkFacts, ...] = ()
    damage: DamageFacts | None = None
    """None: it keeps no archive, or does not tell."""
    group: GroupFacts | None = None
    """None: its transport is another one."""
    services: Mapping[str, object] = attrs.field(factory=dict)
    """What each service found in what the node shows of it, by name (`services.Checkup`)."""
    failed: tuple[str, ...] = ()
    """Services of it that failed, and are off until its next start."""
    aside: tuple[str, ...] = ()
    """What it has set aside because it ended it twice."""


@attrs.frozen
class DirectoryFacts:
    """The data directory of a node on this host."""

    path: str
    exists: bool = False
    failure: str = ""
    """Why it cannot be looked into; then only what is above is known."""
    owner: str = ""
    is_ours: bool = True
    """Whether the user who asks may use it: its owner, or root."""
    strangers: tuple[str, ...] = ()
    """Other users to whom files in it belong."""
    mode: int = 0o700
    free_bytes: int | None = None
    archive_bytes: int = 0
    format: int | None = None
    """Of the archive; None: nothing is settled yet."""
    damage: str = ""
    """Why what is there cannot be an archive."""
    holder: int | None = None
    """The process that has locked it; 0: none; None: it cannot be known."""


@attrs.frozen
class Descriptors:
    """How many files a process may open."""

    pid: int
    """0: whatever is started from here."""
    limit: int
    used: int | None = None
