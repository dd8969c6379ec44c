"""What the engine needs of a messenger, and what a messenger reports.

Knows: the shape of a gossip transport.  Does not know Serf, sockets, or what messages mean.

Invariant: `broadcast` never waits and never raises; what cannot be sent is counted and dropped, because loss is legal
on this way and recovery heals it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

import attrs
import trio

from distkv.model.event import NodeName, Tick
from distkv.wire.edges import EdgeItem
from distkv.wire.following import FollowItem
from distkv.wire.message import Message
from distkv.wire.swim_records import KeyAction


@attrs.frozen(slots=True)
class GossipHeard:
    """A message arrived; it may be our own."""

    message: Message


@attrs.frozen(slots=True)
class Up:
    """Messages flow (again). Whatever was said before was missed."""

    event_bytes: int
    """How many bytes (name and payload) one event may have."""


@attrs.frozen(slots=True)
class Down:
    """Nothing can be sent or heard until the next `Up`."""

    reason: str


@attrs.frozen(slots=True)
class Gap:
    """Messages were lost on the way from the messenger to us."""


@attrs.frozen(slots=True)
class Announce:
    """Updates were not sent for want of room: the others must be told that they exist. Paced by the budget."""


@attrs.frozen(slots=True)
class Members:
    """Who the messenger believes is there: name -> advertised HOST:PORT. A hint, never a truth."""

    alive: Mapping[str, str]


@attrs.frozen(slots=True)
class GroupMember:
    """A node, as a messenger sees it that finds out itself who is there."""

    node: str
    addr: str
    """HOST:PORT, numeric."""
    state: str
    """`alive`, `suspect`, `dead` or `left`."""
    generation: int
    since_s: float
    """When it took this state, in seconds since 1970."""


class KeyDesk(Protocol):
    """Where the keys of a group are seen and changed."""

    def keys(self) -> Mapping[str, tuple[bytes, ...]]:
        """Of each node that is there, this one included, the ids of the keys that it says to have; the first seals."""

    def change(self, action: KeyAction, key: bytes) -> str:
        """Begin a change on all nodes: install a key, or do something with the one of an id. Why not; else empty."""


@attrs.frozen(slots=True)
class FollowHooks:
    """What is called while another node is followed."""

    began: Callable[[], None]
    """It answers."""
    take: Callable[[FollowItem], Awaitable[None]]
    """An item came; the next one is taken afterwards."""
    rested: Callable[[], None]
    """All that came was taken, and nothing more is there yet."""
    held: Callable[[], Awaitable[dict[NodeName, Tick]]]
    """Waits for ticks that it is to be told that they are held."""
    measured: Callable[[float], None]
    """A round trip took so many seconds."""
    node: NodeName | None = None
    """Who is to answer at the address: another node's answer is a PeerError. None: whoever is there."""
    speaks: Callable[[Callable[[Mapping[NodeName, Tick]], bool]], None] = lambda _: None
    """The request has left. What this is given tells the node at once that ticks are held; False: it cannot now."""


@attrs.frozen(slots=True)
class EdgeHooks:
    """What is called while a node attaches to another one, and is its child."""

    take: Callable[[EdgeItem], object]
    """The other end of the edge said something."""
    to_say: Callable[[], Awaitable[EdgeItem]]
    """Waits for what it is to be told next."""
    speaks: Callable[[Callable[[EdgeItem], bool]], None] = lambda _: None
    """What this is given tells it something at once; False: it cannot now. It may be used while `to_say` waits."""


Report: TypeAlias = GossipHeard | Up | Down | Gap | Announce | Members


class Transport(Protocol):
    """A gossip transport. `run` is started once; the rest may be called at any time from the same trio thread."""

    async def run(
        self, report: Callable[[Report], None], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Work until cancelled; `report` is synchronous and quick. Started: after the first attempt to connect.

        Raises:
            TransportError: only for what no retry can heal, such as a refused authentication key.
        """

    def appear(self) -> None:
        """From now on others may be told where this node is: it belongs to a network."""

    def noticed(self, name: str, *, is_well: bool) -> None:
        """Something came from this node on a link just now; or its link broke. A messenger that finds out itself who is
        there may make use of that."""

    def broadcast(self, message: Message) -> None:
        """Send to all nodes, or drop and count, or (updates) announce later."""

    def members(self) -> list[GroupMember] | None:
        """All that are known, this node included, by name; None: the messenger does not find that out itself."""

    def key_desk(self) -> KeyDesk | None:
        """Where its keys are; None: it has none that change while it runs."""

    def statistics(self) -> Mapping[str, int | float | str | bool | list[str]]:
        """For `get_state`: connected, sent, dropped by reason, queue, budget."""
