"""What the machine of a service is told, what it wants done, and what it must offer to be one.

Knows: the form of a service's machine.  Does not know a service, nor the node around it (`services`).

A service runs on every node that has it, and knows nothing but this: what clients ask it, what the same service of
other nodes tells it, its slots, and the time. Tokens are one.

Invariant: what a machine wants is carried out in its order and as one step: all slots of it are kept, or none, and
what it tells and answers leaves when they are on the disk, unless it says that it does not wait for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

import attrs

from distkv.core.ready import Answer, NodeTold, Note, ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.model.event import NodeName


@attrs.frozen(slots=True)
class ServiceWoken:
    """The time in `wake_ms` came."""


@attrs.frozen(slots=True)
class ServiceEntry:
    """The entry of this service in the store has this value, by whichever node; of several at odds each is told."""

    value: bytes


@attrs.frozen(slots=True)
class ServiceNodes:
    """So many nodes belong to the network from now on."""

    count: int


ServiceInput: TypeAlias = (
    ServiceAsked | ServiceContinued | ServiceWithdrawn | NodeTold | ServiceEntry | ServiceNodes | ServiceWoken
)


@attrs.frozen(slots=True)
class ServiceGround:
    """What a machine stands on when it begins."""

    me: NodeName
    life: int
    """That of the directory."""
    created: float
    """When the network was founded, seconds since 1970."""
    slots: Mapping[str, bytes]
    """What was kept. None may mean that there never was any, or that it is lost or void: whoever has promised something
    must then act as one whose disk is new."""
    entries: tuple[bytes, ...] = ()
    """What the store has of this service, the winner first."""
    nodes: int = 0
    """How many nodes belong to the network; 0: nobody says."""


@attrs.frozen(slots=True)
class KeepSlot:
    """Keep a value under a key, durably; None: not any more."""

    key: str
    value: bytes | None


@attrs.frozen(slots=True)
class TellNode:
    """Tell the same service of another node something. It may get lost, and nobody hears of that."""

    name: NodeName
    body: bytes
    waits: bool = True
    """As that of `Answer`."""


@attrs.frozen(slots=True)
class WriteServiceEntry:
    """Write the entry of this service in the store: what all nodes are to know for good."""

    value: bytes


ServiceEffect: TypeAlias = KeepSlot | TellNode | WriteServiceEntry | Answer | Note


class ServiceMachine(Protocol):
    """A service on one node, as a pure machine. Time is given in milliseconds of a clock that goes on while the machine
    sleeps, and means nothing on another node or after a restart of the system."""

    def begin(self, boot_ms: int, wall: float, ground: ServiceGround) -> Iterable[ServiceEffect]:
        """Begin anew, with what was kept: nothing that was known before counts, and no request from before is open."""

    def step(self, boot_ms: int, wall: float, what: ServiceInput) -> Iterable[ServiceEffect]:
        """Take one input. `wall` is seconds since 1970, and only ever stored or shown.

        It must not raise for what a client or another node said. The time may have jumped far beyond `wake_ms`: the
        deadline of a timer does not move while the machine sleeps, so look at the time at every input.
        """

    def wake_ms(self) -> int | None:
        """When it wants to be woken, if nothing happens before, by the clock of `boot_ms`; None: not at all."""
