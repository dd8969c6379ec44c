"""What a node does because time passed: values that go by themselves go, and old tombstones are forgotten.

Knows: who says that a value is over, who must be asked before a tombstone goes, and that this node counts only while
it is registered itself.  Does not know which tombstones may go (`deletion`).

Invariant: what changes the state leaves a record.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from distkv.core.asks import Why
from distkv.core.node import Node
from distkv.core.ready import AGEING_BYTES, AskMaps
from distkv.core.turn import Turn
from distkv.model.event import Event, Link
from distkv.model.invariant import must
from distkv.model.tree import Tree
from distkv.wire.room import events_room


class Ageing:
    """Time's work on one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._expiry = Expiry()
        self.at: Event | None = None
        """The value whose time is over, while that is carried out."""
        self.resting = frozenset[Link]()
        """Values that stay, because to end them ended this node twice (docs/protocol, ASIDE-7)."""

    def begin(self, turn: Turn) -> None:
        """The disk was read. For how long values are here counts from now on."""
        node = self._node
        pending_expiry, node.store.pending_expiry = node.store.pending_expiry, []
        node.deletion.begin([event for event in pending_expiry if event.ttl is None], turn.now_ms, turn.wall)
        for event in pending_expiry:
            self._mind(event, turn)

    def note_new(self, turn: Turn) -> None:
        """See what the step brought that will age."""
        node, store = self._node, self._node.store
        if store.pending_expiry:
            pending_expiry, store.pending_expiry = store.pending_expiry, []
            for event in pending_expiry:
                if event.ttl is None:
                    node.deletion.came(event, store.tree, turn.now_ms)
                self._mind(event, turn)

    def do_what_is_due(self, turn: Turn) -> None:
        """Time has come for something, and the disk has room for it."""
        self._expire(turn)
        if self._node.deletion.is_due(turn.now_ms):
            self._purge(turn)

    def wait(self, turn: Turn) -> None:
        """The disk is full: see later."""
        node, later_ms = self._node, turn.now_ms + self._node.settings.clock_ms
        node.deletion.wait(turn.now_ms)
        for event in list(self._expiry.due(node.store.tree, turn.now_ms)):
            self._expiry.put_off(event, later_ms)

    def wake_ms(self) -> int | None:
        """When there is something to do."""
        expiry_ms, deletion_ms = self._expiry.wake_ms(), self._node.deletion.wake_ms()
        if expiry_ms is None or deletion_ms is None:
            return deletion_ms if expiry_ms is None else expiry_ms
        return min(expiry_ms, deletion_ms)

    # -- inside

    def _mind(self, event: Event, turn: Turn) -> None:
        """The writer ends what it wrote; were it gone, somebody else would after the same time once more."""
        node = self._node
        if event.ttl is not None:
            after_s = event.ttl if event.node == node.store.me else 2 * event.ttl
            self._expiry.came(event, after_s, node.store.tree, turn.now_ms)

    def _expire(self, turn: Turn) -> None:
        node, store, room = self._node, self._node.store, AGEING_BYTES
        for event in self._expiry.due(store.tree, turn.now_ms):
            if event.link not in self.resting and (event.node == store.me or self._is_our_turn()):
                self.at = event
                node.begin_life_if_due(turn)
                applied = store.expire(event, turn.wall)
                node.publish(applied, turn)
                turn.ready.note("expired", node=event.node, tick=event.tick)
                self.at = None
                room -= events_room((applied.event,))
                if room <= 0:
                    return  # there was no more room asked for: the others follow in the next step
            else:
                self._expiry.put_off(event, turn.now_ms + node.settings.clock_ms)

    def _is_our_turn(self) -> bool:
        """Whether we sent the latest ping, or there is nobody else to hear of."""
        node = self._node
        basis = node.election.basis
        return not node.is_up or (bool(basis) and basis[0].node == node.store.me)

    def _purge(self, turn: Turn) -> None:
        """One step on the way: ask one node, or forget what all have answered for."""
        node, now_ms = self._node, turn.now_ms
        store, deletion, recovery = node.store, node.deletion, node.recovery
        deletion.ripen(now_ms)
        mine = store.registry.nodes.get(store.me)
        lives = {name: registered.life for name, registered in store.registry.nodes.items() if name != store.me}
        is_alone = not all(recovery.is_alive(name, now_ms) and recovery.peers[name].addr for name in lives)
        if mine is None or mine.life != store.own.life or is_alone or store.own.is_stale:
            deletion.wait(now_ms)  # who is away cannot report, and an old disk's word does not count
            return
        deletion.begin_round(store.tree, now_ms)
        question = deletion.next_to_ask(lives)
        if question is not None:
            name, tombstones = question
            node.ask(name, recovery.peers[name].addr, AskMaps(tombstones), Why.TOMBSTONES, turn)
            return
        found = deletion.decide(store.tree, lives, now_ms)
        for stone in found:
            turn.ready.records += store.purge(stone.path)
        if found:
            turn.ready.note("purged", count=len(found))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._expiry.check()


DUE_MAX: Final = 64
"""So many at once; the others follow in the next step."""
ROOM: Final = 1024
"""So many that were replaced are kept at any time."""


class Expiry:
    """When which value goes by itself, counted from when it came to this node. It does not know whose turn it is to say
    so, nor whether a value is still there: who asks for what is due looks. All times are monotonic milliseconds.

    Invariant: a value is due no earlier than its ttl after it came. What was replaced is left out now and then, so that
    renewals do not pile up."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Event]] = []
        self._count = 0  # between equal times the one that came first
        self._compact_at = ROOM

    def came(self, event: Event, after_s: float, tree: Tree, now_ms: int) -> None:
        """A value whose time is over after so many seconds."""
        self.put_off(event, now_ms + int(after_s * 1000))
        if len(self._heap) >= self._compact_at:
            self._heap = [one for one in self._heap if tree.head(one[2].path) is one[2]]
            heapq.heapify(self._heap)
            self._compact_at = 2 * len(self._heap) + ROOM

    def put_off(self, event: Event, until_ms: int) -> None:
        """Look at it then."""
        self._count += 1
        heapq.heappush(self._heap, (until_ms, self._count, event))

    @property
    def count(self) -> int:
        """How many are kept, some of which may have been replaced."""
        return len(self._heap)

    def wake_ms(self) -> int | None:
        """When `due` has something to look at."""
        return self._heap[0][0] if self._heap else None

    def due(self, tree: Tree, now_ms: int) -> Iterable[Event]:
        """Some of the values whose time is over and that are still here, the oldest first."""
        for _ in range(DUE_MAX):
            if not self._heap or self._heap[0][0] > now_ms:
                return
            event = heapq.heappop(self._heap)[2]
            if tree.head(event.path) is event:
                yield event

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        due = [ms for ms, _, _ in self._heap]
        must(all(due[(at - 1) // 2] <= due[at] for at in range(1, len(due))), "the next one is the first")
        must(len(due) <= self._compact_at, "what was replaced does not pile up")
