"""One node that this one follows: what it tells becomes inputs, and it is told what is held.

Knows: when what came is committed, and when the peer hears of that.  Does not know whom to follow, nor what may be
believed of what comes (the core), nor how it travels (transport).

Invariant: the peer is told that something is held only when it is durable here; what was taken is committed, however
the follow ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

import trio

from distkv.config import Limits
from distkv.core.ready import FollowBegan, FollowFrom, FollowTold, Input
from distkv.core.replica import Replica
from distkv.engine.commit import Committer
from distkv.engine.noticing import Noticing
from distkv.engine.traffic import LinkTraffic
from distkv.errors import PeerError
from distkv.model.event import NodeName, Tick
from distkv.transport.base import FollowHooks
from distkv.wire.following import FollowItem
from distkv.wire.request import Follow
from distkv.wire.room import events_room

AT_ONCE_BYTES: Final = 64 << 10
"""When so much came at once, a commit begins beside the rest of it, so that those who watch need not wait for all."""


class FollowingNode(Protocol):
    """What a follow needs of the node that follows."""

    replica: Replica
    committer: Committer
    limits: Limits
    noticing: Noticing

    @property
    def position(self) -> int:
        """Wait for this before anything is given away that the last step changed."""

    def step(self, what: Input) -> object:
        """Take one input; whoever gives it sees to the commit, if it `is_awaited`."""

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes of records fit; counted when not."""

    def commit(self) -> None:
        """Have what was taken in committed: now, if somebody waits to be told of it."""

    def when_durable(self, do: Callable[[], object]) -> None:
        """Call it as soon as all that was decided so far is durable."""


class OpenLink:
    """One follow of a peer."""

    def __init__(self, node: FollowingNode, follow: FollowFrom, traffic: LinkTraffic) -> None:
        self._node: Final = node
        self._follow: Final = follow
        self._traffic: Final = traffic
        self._held: Final = HeldTicks()
        traffic.connect()

    def request(self, silent_s: float) -> Follow:
        """What the peer is asked; a sign of life comes thrice before it counts as silent."""
        replica = self._node.replica
        nodes, life = dict(self._follow.nodes), replica.life or 0
        return Follow(1, nodes, silent_s / 3, replica.name, life, replica.network_id)

    @property
    def hooks(self) -> FollowHooks:
        """What is called while it is followed."""
        held, name = self._held, self._follow.name
        commit = self._node.commit  # for all that came: else each step wakes the committer's task, which uses a thread
        return FollowHooks(self._began, self._take, commit, held.next, self._traffic.answered, name, held.speaks)

    def _began(self) -> None:
        self._node.noticing.heard(self._follow.name)
        self._node.step(FollowBegan(self._follow.follow))

    async def _take(self, item: FollowItem) -> None:
        """Take what a peer tells, in one step."""
        node, events = self._node, item.events
        self._traffic.events_in += len(events)
        node.noticing.heard(self._follow.name)
        if events and not node.has_room_for(events_room(events)):
            raise PeerError("the disk is full, what the peer tells was given up")
        node.step(FollowTold(self._follow.follow, events, item.known))
        if item.wants_held:
            ledger = node.replica.tree.ledger
            writers = ({event.node for event in events} | item.known.keys()) & self._follow.nodes.keys()
            ticks = {name: ledger.whole_up_to(name) for name in writers}
            node.when_durable(partial(self._held.say, ticks))
        committer = node.committer
        if committer.waiting_bytes > AT_ONCE_BYTES:
            committer.begin()
        if committer.waiting_bytes > node.limits.uncommitted_bytes:
            await committer.wait_durable(node.position)


class HeldTicks:
    """What a follower has to say to one peer.

    Invariant: for each writer only the newest is kept until it leaves: so a peer that does not read costs nothing."""

    def __init__(self) -> None:
        self._say_now: Callable[[Mapping[NodeName, Tick]], bool] = _cannot
        self._ticks = dict[NodeName, Tick]()
        self._came = trio.Event()

    def speaks(self, say_now: Callable[[Mapping[NodeName, Tick]], bool]) -> None:
        """This says it at once, if the connection takes it: a client waits, and a task would have to wake up first."""
        self._say_now = say_now

    def say(self, ticks: Mapping[NodeName, Tick]) -> None:
        """All that these nodes made in the lives of these ticks, up to them, is durable here."""
        if not ticks or (not self._ticks and self._say_now(ticks)):
            return
        self._ticks |= ticks
        self._came.set()

    async def next(self) -> dict[NodeName, Tick]:
        """What is to be said now; waits for it, and forgets it."""
        await self._came.wait()
        self._came = trio.Event()
        found, self._ticks = self._ticks, {}
        return found


def _cannot(_: Mapping[NodeName, Tick]) -> bool:
    return False
