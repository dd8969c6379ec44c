"""What the machine of a service is told, and what it must offer to be one.

Knows: the form of a service's machine.  Does not know a service, nor the node around it (`services`).

A service runs on every node that has it, and knows nothing but this: what clients ask it, what the same service of
other nodes tells and asks it, alone or all at once, its slots, its entries in the store, who is there and announces
what, and the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

import attrs

from distkv.core.ground.data import ServiceRows
from distkv.core.ground.frames import Announced, AnnouncedFields, Heard, Lacked
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, NodesSilent, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import NodeTold, ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.model.event import NodeName


@attrs.frozen(slots=True)
class ServiceWoken:
    """The time in `wake_ms` came."""


@attrs.frozen(slots=True)
class EntryChanged:
    """An entry of this service in the store may be another, by whichever node; look it up (`ServiceGround.entries`)."""

    key: str
    """Empty: that at the service's own path. `key_names` takes it apart."""


@attrs.frozen(slots=True)
class NodesChanged:
    """Other nodes are registered than before, or have other lives, seem alive, or are neighbours in the server tree;
    look them up (`ServiceGround.nodes`)."""


Setting: TypeAlias = int | float | str
"""As people are shown it."""

ServiceInput: TypeAlias = (
    ServiceAsked | ServiceContinued | ServiceWithdrawn | NodeTold | NodeAsked | NodeGaveUp | NodesSilent | Replied
    | EntryChanged | NodesChanged | Heard | Lacked | Announced | ServiceWoken
)


class Entries(Protocol):
    """What the store has of a service, always as it is now."""

    def versions(self, key: str) -> tuple[bytes | None, ...]:
        """Of an entry: the winner, then what lost against it, each packed, or None where it deleted the entry. Empty:
        there is none, or it is forgotten that it was deleted, or there can be no such key (`entry_key`)."""

    def all_keys(self, first: str = "") -> Iterator[str]:
        """Of all that are there and not deleted, in order: those of one name, or of two of which this is the first. A
        key of two names is among the first kind only if something stands at its first name, too."""


class NetworkNodes(Protocol):
    """Who belongs to the network, always as it was seen last."""

    @property
    def registered(self) -> frozenset[NodeName]:
        """All nodes that belong to it, this one included."""

    @property
    def alive(self) -> frozenset[NodeName]:
        """Those of them that seem alive, but this one. It is looked at once a second at the most."""

    @property
    def neighbours(self) -> tuple[NodeName, ...]:
        """Those on edges of the server tree to this node, the parent first, then the children by name; none while this
        node has no place in it. It is looked at when `alive` is."""

    def life_of(self, node: NodeName) -> int | None:
        """The life in which a node is registered; None: it is not. Who starts anew without what was on its disk has
        another one."""


@attrs.frozen(slots=True)
class ServiceGround:
    """What a machine stands on when it begins, and until it begins anew."""

    me: NodeName
    life: int
    """That of the directory."""
    created: float
    """When the network was founded, seconds since 1970."""
    slots: Mapping[str, bytes]
    """What was kept. None may mean that there never was any, or that it is lost or void: whoever has promised something
    must then act as one whose disk is new."""
    data: ServiceRows
    """The rows of data, and what of them is in doubt, as it is now."""
    entries: Entries
    nodes: NetworkNodes
    announced: AnnouncedFields


class ServiceMachine(Protocol):
    """A service on one node, as a pure machine.

    It must not raise for what a client or another node said. One that raises is off until the next start, and nothing
    of that step is done.
    """

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:
        """Begin anew, with what was kept: nothing that was known before counts, and no request from before is open.

        `ground.data` says which rows the disk lost, and whether it is an old one. It says so at each start, until
        `ServiceTurn.make_good`.
        """

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input. What follows from it is taken by the turn.

        The time may have jumped far beyond `wake_ms`: the deadline of a timer does not move while the machine sleeps,
        so look at the time at every input.
        """

    def wake_ms(self) -> int | None:
        """When it wants to be woken, if nothing happens before, by the clock of `boot_ms`; None: not at all."""

    def statistics(self) -> Mapping[str, object]:
        """What people are shown of it."""

    def alike(self) -> Mapping[str, Setting]:
        """Those of its settings that all nodes should have alike, by their keys in the configuration."""

    def check(self, *, is_whole: bool = True) -> None:
        """For tests: whether what it promises holds. `is_whole`: of all that it keeps; else of what its last step
        touched, at least.

        Raises:
            BrokenInvariantError: it does not.
        """
