"""What follows from an exchange with a node that holds just the same ticks as this one.

Knows: when both hold the same, when this node's disk is the older one, and when whole trees are to be compared.
Does not know which stretches differ (`resync`), nor how an exchange goes.

Invariant: only what was asked for, of a registered node, ends a process or changes a tree (docs/protocol, LIFE-10,
SYNC-1 to SYNC-5).
"""

from __future__ import annotations

from typing import assert_never

from distkv.core.asks import Asked, Why
from distkv.core.node import Node
from distkv.core.ready import PeerAnswered, PeerDone
from distkv.core.resync import DigestResync
from distkv.core.turn import Turn
from distkv.model.event import NodeName
from distkv.model.pages import Page
from distkv.wire.message import EventBatch, PullEnd, SnapshotHead, TickMaps


class Comparison:
    """Compares this node's tree with others'."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._resync = DigestResync(node.settings.clock_ms)

    def maps_came(self, maps: TickMaps, turn: Turn, *, is_answer: bool) -> None:
        """A peer holds what we hold; or the same ticks and other values, which should not be."""
        node, name = self._node, maps.header.node
        store, tree = node.store, node.store.tree
        is_good, has_same_ticks = maps.state.is_serving and not maps.is_stale, maps.held == tree.ledger.held()
        if has_same_ticks and maps.digest == tree.digest:
            node.follow(node.lives.agreed(name, is_good=is_good), turn)
        elif node.is_serving and is_good and store.own.is_stale:
            if not is_answer:  # anybody may connect and say so
                node.recovery.exchange_soon(turn.now_ms, name)
            elif name in store.registry.nodes:
                node.follow(node.lives.differed(name, turn.now_ms, has_same_ticks=has_same_ticks), turn)
        elif name not in store.registry.nodes:
            pass  # it is none of us, or not yet
        elif has_same_ticks and node.is_serving and maps.state.is_serving and maps.is_stale == store.own.is_stale:
            # What an old disk shows, and we do not, may be what we have forgotten.
            if self._resync.differed(tree.sums, maps.digest, turn.now_ms):
                self._begin(name, maps.digest, turn)

    def answered(self, asked: Asked, what: PeerAnswered, turn: Turn) -> None:
        """A part of the peer's tree came."""
        node = self._node
        match what.answer:
            case Page() as page:
                self._resync.page_came(page, node.store.tree)
            case EventBatch(events=events):
                self._resync.merged += sum(node.merge(event, asked.name, turn) for event in events)
            case PullEnd():
                asked.ended = True  # what the peer's ledger says is what led here
            case TickMaps() | SnapshotHead():
                pass  # nobody asked for it
            case _:
                assert_never(what.answer)

    def done(self, asked: Asked, what: PeerDone, turn: Turn) -> None:
        """An answer is complete, or will not come."""
        node = self._node
        ask = self._resync.next_ask() if what.error is None and not asked.is_void else None
        if ask is not None:
            node.ask(asked.name, asked.ask.addr, ask, Why.COMPARISON, turn)
            return
        self._resync.end(is_whole=what.error is None)
        turn.ready.note("resynced", node=asked.name, events=self._resync.merged)
        node.recovery.exchange_soon(turn.now_ms, asked.name)  # which shows the peer our digest, in its turn

    def _begin(self, name: NodeName, digest: int, turn: Turn) -> None:
        node, peer = self._node, self._node.recovery.peers.get(name)
        ask = self._resync.begin(name, digest, turn.now_ms) if peer is not None and peer.addr else None
        if ask is not None and peer is not None:
            turn.ready.note("digest_differs", node=name, digest=f"{digest:016x}")
            node.ask(name, peer.addr, ask, Why.COMPARISON, turn)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._resync.check()
