"""What a node makes of what comes from those whom it follows, and to whom it lends a connection to be followed on.

Knows: what may be believed of it, and from which tick on a writer is to be followed; who should follow this node and
does not.  Does not know how it travels, nor whom to follow (`following`).

Invariant: only what was asked for counts: events of the writers for which the peer is followed, of registered nodes,
not far ahead. Ticks that a peer calls superseded become heard of, and no more: pulls bring what superseded them
(PULL-5).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

import attrs

from distkv.core.asks import Why
from distkv.core.gossip import is_near, jump_of
from distkv.core.node import Node
from distkv.core.ready import FollowBegan, FollowEnded, FollowFrom, FollowTold, LendEnded, LendTo, LineLent, Rng
from distkv.core.turn import Turn
from distkv.errors import LoanOverError, PeerError, UnknownActionError
from distkv.model.event import Link, NodeName, Tick, life_of
from distkv.model.invariant import must
from distkv.model.tick_ranges import ranges_of

PULL_SILENT_MS: Final = 3000
"""A pull of which nothing was heard for so long is not waited for."""


class Links:
    """The follows of one node."""

    def __init__(self, node: Node, rng: Rng) -> None:
        self._node = node
        self._lending = Lending(node.store.me, node.settings.fanout, rng)
        self._as_of = (0, False)
        """The registry, and whether the node served clients, when it was last seen whom to follow."""
        self._others = list[NodeName]()
        """The other registered nodes, by name, as of this change of the registry."""
        self._others_as_of = -1

    def began(self, what: FollowBegan, turn: Turn) -> None:
        """A peer answers."""
        node = self._node
        parent = node.following.parent_of(what.follow)
        if parent is not None:
            node.recovery.saw(parent, "", turn.now_ms)
        node.following.began(what.follow)

    def told(self, what: FollowTold, turn: Turn) -> None:
        """An item came."""
        node = self._node
        following = node.following
        parent = following.parent_of(what.follow)
        if parent is None:
            return  # it was on its way when it was not wanted any more
        lasts = {event.node: event.tick for event in what.events}
        following.told(what.follow, lasts | {name: ticks.last() for name, ticks in what.known.items()})
        node.recovery.saw(parent, "", turn.now_ms)
        writers = following.parents[parent].writers
        for event in what.events:
            if event.node not in writers or event.node not in node.store.registry.nodes:
                turn.ready.note("link_unasked", node=parent, tick=event.tick)
            elif (jump := jump_of(node, event)) is not None:
                turn.ready.note(jump, node=parent, tick=event.tick, tock=event.tock)
            else:
                node.deliveries.events_linked += 1
                node.deliveries.events_linked_again += not node.apply(event, turn)
        for name, ticks in what.known.items():
            last = (name, Tick(ticks.last()))
            if name in writers and is_near(node, last):
                node.store.hear_ticks([(name, [last[1]])])
            else:
                turn.ready.note("link_unasked", node=parent, tick=last[1])

    def set_aside(self, links: Iterable[Link], turn: Turn) -> None:
        """Changes are left out here, wherever they come from: they are missing, and given up as if nobody had them. So
        nobody is asked for them, and no purge that they speak against is made (docs/protocol, ASIDE-3)."""
        node = self._node
        store = node.store
        for link in links:
            if store.has_data and link[0] in store.registry.nodes and is_near(node, link):
                store.hear_ticks([(link[0], [link[1]])])
            turn.ready.records += store.mark_lost(ranges_of((link,)))

    def ended(self, what: FollowEnded, turn: Turn) -> None:
        """A peer is followed no more."""
        node = self._node
        parent = node.following.parent_of(what.follow)
        if parent is not None:
            node.deliveries.links_lost += node.following.parents[parent].is_up
            is_well = isinstance(what.error, LoanOverError)
            if isinstance(what.error, PeerError) and not is_well:  # silent, or nobody answers: counts more than a tag
                node.recovery.unreachable(parent, turn.now_ms)
            is_unknown = isinstance(what.error, UnknownActionError)
            reason = "" if is_well else str(what.error)
            node.following.ended(what.follow, reason, turn.now_ms, is_unknown=is_unknown)
            turn.ready.note("link_lost", node=parent, error=str(what.error))

    def lent(self, what: LineLent, turn: Turn) -> None:
        """A peer that cannot be dialled lends a connection (LINK-9)."""
        self._node.following.lent(what.name)
        turn.ready.note("line_lent", node=what.name)

    def lend_ended(self, what: LendEnded, turn: Turn) -> None:
        """A connection is not lent any more, or was not taken."""
        is_unknown = isinstance(what.error, UnknownActionError)
        self._lending.ended(what.name, turn.now_ms, was_used=what.was_used, is_unknown=is_unknown)
        turn.ready.note("lend_ended", node=what.name, error="" if what.error is None else str(what.error))

    def do_what_is_due(self, turn: Turn, *, is_serving: bool) -> None:
        """Follow others than before, if it is time to see that. `is_serving`: whether the node serves clients."""
        node = self._node
        following, registry = node.following, node.store.registry
        as_of = registry.changes, is_serving
        if as_of != self._as_of:
            if as_of[0] != self._as_of[0]:
                self.see_addresses()
            if as_of[1] != self._as_of[1]:
                following.look_again()
            following.registry_changed(turn.now_ms)
            self._as_of = as_of
        if not following.is_due(turn.now_ms):
            return
        peers, others = node.recovery.peers, self._registered() if is_serving else []
        alive = node.recovery.alive(others, turn.now_ms)
        following.see(alive)
        followable, pulled = self._followable(others, alive), self._pulled(alive, turn.now_ms)
        away = {name for name, parent in following.parents.items() if not parent.is_up}
        for name in self._lending.plan(turn.now_ms, followable if following.is_on else [], following.followers, away):
            turn.ready.lends.append(LendTo(name, peers[name].addr))
        for name, follow in following.plan(turn.now_ms, followable, pulled).items():
            addr = peers[name].addr if name in peers else ""
            writers = sorted(following.parents[name].writers)  # the request is the same wherever it is made
            nodes = {writer: self._whole_up_to(writer) for writer in writers}
            following.parents[name].told = dict[NodeName, int](nodes)
            turn.ready.follows.append(FollowFrom(follow, name, addr, nodes))

    def see_addresses(self) -> None:
        """What the registry says of where the nodes are."""
        for name, registration in self._node.store.registry.nodes.items():
            self._node.recovery.registered(name, registration.addr)

    # -- inside

    def _pulled(self, alive: list[NodeName], now_ms: int) -> frozenset[NodeName]:
        """Whose changes a pull is bringing."""
        pull = self._node.asks.find(Why.PULL)
        if pull is None or now_ms - pull.heard_ms >= PULL_SILENT_MS:
            return frozenset()
        return frozenset(alive) - pull.left

    def _registered(self) -> list[NodeName]:
        """The other registered nodes, by name."""
        registry = self._node.store.registry
        if self._others_as_of != registry.changes:
            self._others_as_of = registry.changes
            self._others = sorted(self._node.store.others())
        return self._others

    def _followable(self, others: list[NodeName], alive: list[NodeName]) -> list[NodeName]:
        """Those with an address; and members that did not answer once: where nodes follow each other and gossip little,
        only another attempt shows that they do again."""
        peers, living = self._node.recovery.peers, set(alive)
        return [
            name
            for name in others
            if (peer := peers.get(name)) is not None and peer.addr and (peer.is_member or name in living)
        ]

    def _whole_up_to(self, writer: NodeName) -> Tick:
        """The tick of its latest life up to which nothing that was heard of is missing, but what nobody has."""
        ledger = self._node.store.tree.ledger
        last = ledger.last(writer)
        missing = ledger.missing(but_lost=True).get(writer)
        if missing:
            gaps = [begin for begin, _ in missing.pairs() if life_of(Tick(begin)) == life_of(last)]
            last = Tick(gaps[0] - 1) if gaps else last
        return last

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._lending.check()
        registry, me = self._node.store.registry, self._node.store.me
        if self._others_as_of == registry.changes:
            must(self._others == sorted(registry.nodes.keys() - {me}), "the others are those that are registered")


PATIENCE_MS: Final = 5000
"""So long a node that could be asked does not follow, before it is offered a connection: it may be about to."""
RETRY_MS: Final = 2000
"""After so long, more or less, a node that took none is offered one again; then after twice as long, and so on."""
RETRY_MAX_MS: Final = 300_000
UNKNOWN_MS: Final = 3_600_000
"""After so long, when the node is of a release that takes none."""


@attrs.define(slots=True)
class Borrower:
    """A node that should follow this one and does not, or to which a connection is lent."""

    since_ms: int | None = None
    """Since when it does not follow although it could be asked; None: it follows, or cannot be asked."""
    is_open: bool = False
    """Whether a connection is lent to it, or offered."""
    failures: int = 0
    """How often in a row it took none, or did not use it."""
    retry_ms: int | None = None
    """When it may be offered one again."""


class Lending:
    """To whom this node lends a connection: whoever should follow it and does not, perhaps because it cannot dial this
    one. All times are monotonic milliseconds.

    Invariant: at most `fanout` connections are lent or offered at a time, and one to each node; who follows gets none
    (docs/protocol, LINK-9)."""

    def __init__(self, me: NodeName, fanout: int, rng: Rng) -> None:
        self._me: Final = me
        self._fanout: Final = fanout
        self._rng: Final = rng
        self._borrowers: Final = dict[NodeName, Borrower]()

    def plan(
        self, now_ms: int, alive: Sequence[NodeName], followers: Container[NodeName], away: Container[NodeName]
    ) -> list[NodeName]:
        """To whom a connection is offered now; `alive` are the other registered nodes that seem alive, by name. Those
        that are `away` this node tried to reach in vain."""
        wanted = self._nearest(alive)
        for name in [name for name, one in self._borrowers.items() if name not in wanted and not one.is_open]:
            del self._borrowers[name]
        found = list[NodeName]()
        for name in wanted:
            borrower = self._borrowers.setdefault(name, Borrower())
            if name in followers or name in away:
                borrower.since_ms = None
                continue
            if borrower.since_ms is None:
                borrower.since_ms = now_ms
            if self._is_due(borrower, now_ms):
                borrower.is_open = True
                found.append(name)
        return found

    def ended(self, name: NodeName, now_ms: int, *, was_used: bool, is_unknown: bool = False) -> None:
        """A connection is not lent to a node any more, or was not taken; `is_unknown`: it does not know what that is.
        Other releases may come to run there."""
        borrower = self._borrowers.get(name)
        if borrower is None:
            return
        if was_used:
            borrower.failures = 0
        wait_ms = UNKNOWN_MS if is_unknown else min(RETRY_MS << min(borrower.failures, 16), RETRY_MAX_MS)
        borrower.is_open, borrower.failures = False, borrower.failures + 1
        borrower.retry_ms = now_ms + wait_ms // 2 + int(self._rng.random() * wait_ms)

    # -- inside

    def _is_due(self, borrower: Borrower, now_ms: int) -> bool:
        if borrower.is_open or borrower.since_ms is None or now_ms - borrower.since_ms < PATIENCE_MS:
            return False
        if borrower.retry_ms is not None and now_ms < borrower.retry_ms:
            return False
        return sum(one.is_open for one in self._borrowers.values()) < self._fanout

    def _nearest(self, alive: Sequence[NodeName]) -> list[NodeName]:
        """The nodes just behind this one in its ring, which follow it themselves; all others do through these
        (LINK-2)."""
        return [*(name for name in alive if name > self._me), *(name for name in alive if name < self._me)][
            : self._fanout
        ]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        count = sum(one.is_open for one in self._borrowers.values())
        must(count <= self._fanout, f"at most {self._fanout} connections are lent, not {count}")
