"""From commits to those who follow: the events of some writers, and the ticks that are known to be superseded.

Knows: what the log got, and which of it somebody follows.  Does not know what followers are told it in (services), when
a commit is durable (whoever drives it says so), nor when followers have time (`engine.hub`).

Invariant: all followers share one queue, which holds what one of them was not told yet; nothing of it is told before it
is durable (`engine.shared_queue`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import attrs

from distkv.config import Limits
from distkv.engine.shared_queue import News, SharedBatch, SharedQueue, Subscriber
from distkv.errors import BusyError
from distkv.model.event import Link, NodeName, Tick, life_of
from distkv.model.ranges import Ranges
from distkv.wire.message import EventRecord, KnownRecord, Record, ResetRecord

ITEM_BYTES: Final = 256
"""What an item counts besides its record: so a batch has no more than 256 of them."""
FEW: Final = 16
"""So many are told where the commit is done: to wake a task for it costs more, and a client may wait for them."""


@attrs.frozen(slots=True)
class HeldItem:
    """What came to be held: an event, or ticks that are superseded."""

    position: int
    node: NodeName
    tick: int
    """The last one."""
    record: bytes
    """The event as the log has it; empty: it is none."""
    known: Ranges | None = None

    @property
    def size(self) -> int:
        return ITEM_BYTES + len(self.record) + (0 if self.known is None else 16 * self.known.count())


HeldBatch: TypeAlias = SharedBatch[HeldItem]


class Follower(Subscriber[HeldItem]):
    """One who follows these nodes."""

    def __init__(
        self, queue: SharedQueue[HeldItem], nodes: Iterable[NodeName], begin: int, push: Callable[[HeldBatch], bool]
    ) -> None:
        super().__init__(queue, begin, push)
        self.nodes: Final = frozenset(nodes)


class Followers:
    """All who follow at a node."""

    def __init__(self, limits: Limits, news: News) -> None:
        self.queue: Final = SharedQueue[HeldItem](limits.follow_events, limits.follow_bytes)
        self.holders: Final = Holders()
        self._news: Final = news
        self._wanted = Counter[NodeName]()
        self._pending = deque[HeldItem]()  # not durable yet: the records that wait for the disk bound it

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.queue.subscribers)

    @property
    def are_waiting(self) -> bool:
        """Whether some are to be told of what is not durable yet."""
        return bool(self._pending)

    def add(self, nodes: Iterable[NodeName], begin: int, push: Callable[[HeldBatch], bool]) -> Follower:
        """Somebody who is to be told what is held of these nodes behind the position `begin`."""
        found = Follower(self.queue, nodes, begin, push)
        self.queue.subscribers[found] = None
        self._wanted.update(found.nodes)
        return found

    def remove(self, follower: Follower) -> None:
        """May be called again."""
        if follower not in self.queue.subscribers:
            return
        del self.queue.subscribers[follower]
        self._wanted.subtract(follower.nodes)
        self._wanted = +self._wanted
        self.queue.forget_told()
        if not self.queue.subscribers:
            self._pending.clear()

    def note(self, records: Sequence[Record], encoded: Sequence[bytes], position: int) -> None:
        """What the log gets, which is durable as soon as `position` records are."""
        wanted, pending = self._wanted, self._pending
        for record, data in zip(records, encoded, strict=True):
            if isinstance(record, EventRecord):
                node, tick = record.event.link
                if node in wanted:
                    pending.append(HeldItem(position, node, tick, data))
            elif isinstance(record, KnownRecord):
                for node, ticks in record.ranges.items():
                    if node in wanted:
                        pending.append(HeldItem(position, node, ticks.last(), b"", ticks))
            elif isinstance(record, ResetRecord):
                self.lose_all()

    def lose_all(self) -> None:
        """Nothing that was to be told is told: all begin anew."""
        self._pending.clear()
        self.queue.lose_all()
        self._news.add(self.queue)

    def deliver(self, durable: int) -> None:
        """So many records are durable now."""
        pending, queue = self._pending, self.queue
        if pending and pending[0].position <= durable:
            while pending and pending[0].position <= durable:
                queue.offer(pending.popleft())
            if len(queue.subscribers) <= FEW:
                self._news.tell_now(queue)
            else:
                self._news.add(queue)


@attrs.define(eq=False)
class AwaitedEvent:
    """An event that so many followers are to hold."""

    node: NodeName
    tick: Tick
    wanted: int
    enough: Callable[[], object]
    """Called when so many hold it; may be called again."""
    holders: set[NodeName] = attrs.field(factory=set)
    """Who said so."""

    def add(self, holder: NodeName) -> None:
        """It said so."""
        self.holders.add(holder)
        if len(self.holders) >= self.wanted:
            self.enough()


class Holders:
    """The followers of a node, as far as somebody waits for them.

    Invariant: a follower is counted for an event only after it said that it holds all of that writer's life up to that
    tick, or further."""

    def __init__(self) -> None:
        self._awaited: Final = dict[NodeName, dict[AwaitedEvent, None]]()

    @property
    def are_awaited(self) -> bool:
        """Whether followers are to say what they hold."""
        return bool(self._awaited)

    def begin(self, link: Link, wanted: int, enough: Callable[[], object]) -> AwaitedEvent:
        """Somebody waits, until `end`, for so many who hold an event; `enough` tells. What was said before does not
        count."""
        found = AwaitedEvent(*link, wanted, enough)
        self._awaited.setdefault(found.node, {})[found] = None
        return found

    def end(self, awaited: AwaitedEvent) -> None:
        """Nobody waits for it any more."""
        del self._awaited[awaited.node][awaited]
        if not self._awaited[awaited.node]:
            del self._awaited[awaited.node]

    def said(self, follower: NodeName, nodes: Mapping[NodeName, Tick]) -> None:
        """A follower durably holds all that these nodes made in the lives of these ticks, up to them."""
        for node, tick in nodes.items():
            for awaited in list(self._awaited.get(node, ())):  # who has enough is answered, and waits no more
                if awaited.tick <= tick and life_of(awaited.tick) == life_of(tick):
                    awaited.add(follower)


OF_A_NODE: Final = 4
"""A node follows another one once; one that was cut off may have left a few behind that did not end yet."""
OF_OTHERS: Final = 256
"""Of clients, and of nodes that are not registered (yet)."""


class BegunFollow(Protocol):
    """A follow that is open."""

    def stop(self) -> None:
        """Let it come to its end."""


class FollowLimits:
    """How many follows all connections of a node have together: each that reads nothing costs memory.

    Invariant: in the name of a registered node there are at most `OF_A_NODE`, the newest ones; of all others together
    at most `OF_OTHERS`."""

    def __init__(self, is_registered: Callable[[NodeName], bool]) -> None:
        self._is_registered: Final = is_registered
        self._of_nodes: Final = dict[NodeName, dict[BegunFollow, None]]()
        self._of_others: Final = dict[BegunFollow, None]()

    @property
    def count(self) -> int:
        """Of all that are open."""
        return len(self._of_others) + sum(map(len, self._of_nodes.values()))

    def check(self, name: NodeName | None) -> None:
        """Whether another one may begin.

        Raises:
            BusyError: clients have too many.
        """
        if not self._is_node(name) and len(self._of_others) >= OF_OTHERS:
            raise BusyError(f"{OF_OTHERS} clients follow this node already: stop one, or follow another node")

    def begin(self, name: NodeName | None, follow: BegunFollow) -> None:
        """One more. A node that has too many wants the newest: the oldest is stopped."""
        if name is None or not self._is_registered(name):
            self._of_others[follow] = None
            return
        some = self._of_nodes.setdefault(name, {})
        some[follow] = None
        for oldest in list(some)[:-OF_A_NODE]:
            del some[oldest]
            oldest.stop()

    def end(self, name: NodeName | None, follow: BegunFollow) -> None:
        """It is over."""
        self._of_others.pop(follow, None)
        if name is not None and name in self._of_nodes:
            self._of_nodes[name].pop(follow, None)
            if not self._of_nodes[name]:
                del self._of_nodes[name]

    # -- inside

    def _is_node(self, name: NodeName | None) -> bool:
        return name is not None and self._is_registered(name)
