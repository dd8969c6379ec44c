"""What a node does because time passed: it forgets old tombstones.

Knows: who must be asked before, and that this node counts only while it is registered itself.  Does not know which
tombstones may go (`deletion`).

Invariant: what changes the state leaves a record.
"""

from __future__ import annotations

from distkv.core.node import Node, Turn
from distkv.core.ready import AskMaps


class Ageing:
    """Time's work on one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def begin(self, turn: Turn) -> None:
        """The disk was read."""
        node = self._node
        fading, node.store.fading = node.store.fading, []
        node.deletion.begin(fading, turn.now_ms, turn.wall)

    def note_new(self, turn: Turn) -> None:
        """See what the step brought that will age."""
        store = self._node.store
        if store.fading:
            fading, store.fading = store.fading, []
            for event in fading:
                self._node.deletion.came(event, store.tree, turn.now_ms)

    def do_what_is_due(self, turn: Turn) -> None:
        if self._node.deletion.is_due(turn.now_ms):
            self._purge(turn)

    def wake_ms(self) -> int | None:
        return self._node.deletion.wake_ms()

    # -- inside

    def _purge(self, turn: Turn) -> None:
        """One step on the way: ask one node, or forget what all have answered for."""
        node, now_ms = self._node, turn.now_ms
        store, deletion, recovery = node.store, node.deletion, node.recovery
        deletion.ripen(now_ms)
        mine = store.registry.get(store.me)
        lives = {name: registered.life for name, registered in store.registry.items() if name != store.me}
        is_alone = not all(recovery.is_alive(name, now_ms) and recovery.peers[name].addr for name in lives)
        if not node.is_serving or mine is None or mine.life != store.life or is_alone:
            deletion.wait(now_ms)  # who is away cannot report
            return
        deletion.begin_round(store.tree, now_ms)
        question = deletion.next_to_ask(lives)
        if question is not None:
            name, tombstones = question
            node.ask(name, recovery.peers[name].addr, AskMaps(tombstones), turn)
            return
        found = deletion.decide(store.tree, lives, now_ms)
        for stone in found:
            turn.ready.records += store.purge(stone.path)
        if found:
            turn.ready.note("purged", count=len(found))
