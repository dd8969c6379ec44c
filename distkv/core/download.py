"""Downloads: how a node without data, or with an old disk, takes over what another one has.

Knows: when an old disk may be given up, what a download voids, and what makes it count.  Does not know whom to ask
first, nor how often (`startup`).

Invariant: a download that breaks off leaves nothing that a later one does not void (docs/protocol, START-14, SNAP-2,
LIFE-8).
"""

from __future__ import annotations

from distkv.core.asks import Asked, Why
from distkv.core.node import Node
from distkv.core.ready import AskSnapshot, PeerDone
from distkv.core.steps import take
from distkv.core.turn import Turn
from distkv.errors import BusyError, DuplicateNameError, ExistsError, NotReadyError
from distkv.model.invariant import must
from distkv.wire.message import SnapshotHead, TickMaps


class Download:
    """Downloads for one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._life: int | None = None
        """What the sponsor of the download that is under way gave us; None: there is none, or it has said nothing."""

    def hand_over(self, maps: TickMaps, turn: Turn) -> None:
        """Download from a peer that has taken over all that our disk held. It must be ready, so that it keeps it."""
        node = self._node
        startup, is_kept = node.startup, maps.state.is_serving and not maps.is_stale
        if not startup.hands_over or not is_kept or not maps.addr or maps.header.network != node.network_id:
            return
        if node.asks.has(Why.DOWNLOAD):
            return
        if startup.is_taken_over(maps.held):
            startup.asked()
            node.ask(maps.header.node, maps.addr, AskSnapshot(), Why.DOWNLOAD, turn)

    def began(self, asked: Asked, head: SnapshotHead, turn: Turn) -> None:
        """First what the sponsor's ledger says; what is present comes from what arrives."""
        node = self._node
        if node.store.has_data and not node.startup.hands_over:
            asked.is_void = True  # it came too late: we serve what we have
            return
        node.asks.void_all_but(asked)  # what they answer is about what was here
        turn.ready.records += node.store.reset()
        node.follow(node.lives.downloading(is_stale=head.is_stale), turn)
        node.election.sleep(turn.now_ms)
        node.startup.download_began()
        self._life = head.life
        node.store.tock = max(node.store.tock, head.header.tock)
        node.store.hear_ticks(head.ticks.items())
        node.learn_known(head.superseded, turn)

    def done(self, asked: Asked, what: PeerDone, turn: Turn) -> None:
        """It is complete, or will not come."""
        if asked.is_void:
            return  # it came too late, and nothing of it was taken
        node, life = self._node, self._life
        self._life = None  # else an answer that says nothing would begin the former life once more
        if isinstance(what.error, ExistsError) and not node.store.has_data:  # else it may be we, at another address
            turn.ready.fatal = DuplicateNameError(str(what.error))
            return
        mine = node.store.registry.nodes.get(node.store.me)
        stands = mine is not None and mine.life == life and node.network_id is not None
        if what.error is not None or life is None or not stands:
            self._failed(asked, what, turn)
            return
        node.follow(node.lives.downloaded(life), turn)
        node.startup.download_ended(node.store.missing())
        if node.is_up:
            node.election.wake(turn.now_ms)

    def _failed(self, asked: Asked, what: PeerDone, turn: Turn) -> None:
        node = self._node
        node.startup.download_failed()
        if node.network_id is not None and not node.store.has_data:
            node.startup.begin_hand_over(turn.now_ms, node.store.tree.ledger.held())
        if isinstance(what.error, BusyError):
            node.startup.attempt_postponed(turn.now_ms, asked.name)
            return
        is_empty = isinstance(what.error, NotReadyError)
        take(node.startup.attempt_failed(turn.now_ms, asked.name, is_empty=is_empty), node, turn)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._life is None or self._node.asks.has(Why.DOWNLOAD), "a life is that of a download")
