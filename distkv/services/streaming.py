"""One follow, without an event loop: first what is held already, then each commit.

Knows: what a follower was told, and what it has to be told next.  Does not know how frames leave, nor how one waits: it
says what it needs (`telling.Effect`), and whoever drives it goes on when that is done.

Invariant: of each node that it follows the follower is told every tick that is held above the one it named: the event,
or that it is superseded. Those that came to be held here in their order come in it. Nothing is sent that is not
durable, and what falls out of the queue is found in the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Final, Protocol, TypeAlias

from distkv.core.replica import Replica
from distkv.engine.followers import Follower, Followers, HeldBatch, HeldItem
from distkv.engine.shared_queue import BATCH_BYTES
from distkv.model.event import NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.services.telling import Durable, Send, SendNowait, Wait
from distkv.wire.following import ITEM_EVENTS_MAX, encode_alive, encode_known, encode_records
from distkv.wire.message import EventRecord
from distkv.wire.records import encode_record
from distkv.wire.replies import addressed, encode_end
from distkv.wire.request import Follow

WINDOW_TICKS: Final = 4096
"""So many ticks are looked at in one go."""


class FollowedNode(Protocol):
    """What a follow has to know of its node."""

    @property
    def replica(self) -> Replica:
        """As it is now, durable or not."""

    @property
    def position(self) -> int:
        """How many records there are."""

    @property
    def counters(self) -> Counter[str]:
        """What people are told happened how often."""


StreamEffect: TypeAlias = Durable | Send | Wait


class Streaming:
    """One follow."""

    def __init__(
        self,
        node: FollowedNode,
        followers: Followers,
        request: Follow,
        send_nowait: SendNowait,
        told_events: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`told_events`: is given how many events the follower is told, each time that there are some."""
        self._node: Final = node
        self._holders: Final = followers.holders
        self._told_events: Final = told_events
        self._seq: Final = request.seq
        self._send_nowait: Final = send_nowait
        self._told: Final = dict[NodeName, int](request.nodes)
        """Up to where it was told of each node."""
        self.follower: Final[Follower] = followers.add(request.nodes, node.position, self._push)
        self._steps: Final = self._all_steps()

    def go_on(self) -> StreamEffect | None:
        """What to do next, now that the last effect is done; None: it is over."""
        return next(self._steps, None)

    # -- in which order

    def _all_steps(self) -> Generator[StreamEffect, None, None]:
        """Tell everything, until stopped."""
        follower = self.follower
        yield from self._catch_up()
        yield Send(addressed(encode_alive(), self._seq))  # that was all
        while not follower.is_stopped:
            if follower.is_lost:
                self._node.counters["follow_overtaken"] += 1
                yield from self._catch_up()
            elif batch := follower.take().items:
                found = self._encode(batch)
                self._note(batch)
                if found:
                    yield Send(addressed_all(found, self._seq))
            else:
                yield Wait()
        yield Send(encode_end(self._seq))

    def _catch_up(self) -> Generator[StreamEffect, None, None]:
        """Tell what is held and was not told, part by part, until the queue has the rest."""
        follower, node = self.follower, self._node
        follower.lose()  # meanwhile nothing is kept for it
        is_behind = True
        while is_behind and not follower.is_stopped:
            position = node.position
            part = self._part()
            is_behind = self._is_behind()
            if not is_behind:
                follower.begin_again(position)  # now: whoever writes all the time is never caught up with part by part
            if part is not None:
                yield Durable(position)
                yield Send(addressed_all(part, self._seq))

    # -- what is sent

    def _part(self) -> tuple[bytes, ...] | None:
        """The next of what is held and was not told; None: that was all."""
        for node in self._told:
            for held, end in self._windows(node):
                records, size = [], 0
                present = Ranges()
                for event in self._node.replica.tree.present({node: held}):
                    record = encode_record(EventRecord(event, arrived=0.0))
                    records.append(record)
                    size += len(record)
                    present.add(event.tick)
                    if len(records) >= ITEM_EVENTS_MAX or size >= BATCH_BYTES:
                        end = event.tick + 1
                        break
                self._told[node] = end - 1
                known = (held & Ranges([(0, end)])) - present
                wants_held = self._holders.are_awaited
                items = [encode_records(records, wants_held=wants_held)] if records else []
                self._told_events(len(records))
                if known:
                    items.append(encode_known({node: known}, wants_held=wants_held))
                return tuple(items)
        return None

    def _is_behind(self) -> bool:
        """Whether anything is held that it was not told."""
        return any(True for node in self._told for _ in self._windows(node))

    def _windows(self, node: NodeName) -> Iterator[tuple[Ranges, int]]:
        """What is held of a node above the tick that was told, from the first such on, and where that ends."""
        for book in self._node.replica.tree.ledger.books(node):
            begin = max(book.first, self._told[node] + 1)
            while begin <= book.last:
                end = min(begin + WINDOW_TICKS, book.last + 1)
                held = book.held & Ranges([(begin, end)])
                if held:
                    yield held, end
                begin = end

    def _push(self, batch: HeldBatch) -> bool:
        """For the hub, while nothing else is to be told. All who follow the same nodes are sent the same."""
        nodes = self.follower.nodes
        found = batch.sent_as.get(nodes)
        if found is None:
            found = batch.sent_as[nodes] = self._encode(batch.items)
        if found and not self._send_nowait(addressed_all(found, self._seq)):
            return False
        self._note(batch.items)
        return True

    def _encode(self, batch: list[HeldItem]) -> tuple[bytes, ...]:
        """The items of what the follower wants of a batch."""
        nodes, items, records = self.follower.nodes, list[bytes](), list[bytes]()
        wants_held = self._holders.are_awaited
        for held in batch:
            if held.node not in nodes:
                continue
            if held.known is None:
                records.append(held.record)
                continue
            if records:
                items.append(encode_records(records, wants_held=wants_held))
                records = []
            items.append(encode_known({held.node: held.known}, wants_held=wants_held))
        if records:
            items.append(encode_records(records, wants_held=wants_held))
        return tuple(items)

    def _note(self, batch: list[HeldItem]) -> None:
        told, events = self._told, 0
        for held in batch:
            if held.node in told:
                events += held.known is None
                if held.tick > told[held.node]:
                    told[held.node] = Tick(held.tick)
        self._told_events(events)


def addressed_all(items: tuple[bytes, ...], seq: int) -> bytes:
    """These items for one follower."""
    return b"".join([addressed(item, seq) for item in items])
