"""How a node of the server tree gets its parent, keeps it, and leaves it for another one.

Knows: whom to ask, which offer is taken and when, and what the parent says of its place.  Does not know who may be a
child (`machine`), nor what goes over the edges.

Invariant: no parent is taken before all below know that this node has none: so no node joins below itself
(docs/protocol, TREE-3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from distkv.core.edges import TreeTurn
from distkv.core.ready import Rng
from distkv.core.server_tree.backlog import EdgeBacklog
from distkv.core.server_tree.broadcast import Broadcast
from distkv.core.server_tree.children import Children
from distkv.core.server_tree.parents import DEPTH_MAX, TreePeer, candidates, is_better, is_well_above
from distkv.core.server_tree.phase import TRANSITIONS, TreeCause, TreePhase
from distkv.core.server_tree.search import INQUIRY_MS, PROBE_MS, Inquiry, Search
from distkv.core.server_tree.settings import TreeCounts, TreeGround, TreeSettings
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.edges import Join, ParentOffer, ParentRefusal, ServerInfo, SubtreeHeight, SubtreeTold


class Upward:
    """The way up of one node."""

    def __init__(self, settings: TreeSettings, ground: TreeGround, rng: Rng, backlog: EdgeBacklog) -> None:
        self.place: Final = TreePlace(settings.me)
        self.children: Final = Children()
        self.search: Final = Search(settings.me, settings.announce_ms, rng)
        self.broadcast: Final = Broadcast(settings, ground)
        self.counts: Final = TreeCounts()
        self._settings: Final = settings
        self._ground: Final = ground
        self._rng: Final = rng
        self._backlog: Final = backlog

    # -- looking for a parent

    def look(self, turn: TreeTurn, lost_root: NodeName | None = None) -> None:
        """Without a parent: all below must know before another one is taken."""
        self.place.path = ()
        self.search.begin(turn.now_ms, lost_root)
        self._tell_below(turn)

    def go_on(self, turn: TreeTurn) -> None:
        """Ask the next node, or begin another round; or become the root."""
        search, now_ms = self.search, turn.now_ms
        if self.place.phase is not TreePhase.LOOKING or search.inquiry is not None or now_ms < search.next_ms:
            return
        if search.pass_time(now_ms):
            search.begin_round(self._candidates(self._ground.peers(now_ms), search.lost_root))
        if not self._ask_next(turn) and search.end_round(now_ms):
            self._become_root(turn)

    def offered(self, turn: TreeTurn, edge: int, offer: ParentOffer) -> None:
        """Whoever is asked would be the parent. Another node may answer at its address: that one is not taken."""
        inquiry, place = self.search.inquiry, self.place
        if inquiry is None or edge != inquiry.edge or inquiry.offer is not None:
            return
        is_deep = len(offer.path) + self.children.height > DEPTH_MAX
        if is_deep:
            self.search.ask_before(tuple(reversed(offer.path)))
        if is_deep or place.leads_here(offer.path) or offer.path[:1] != (inquiry.name,):
            self._end_inquiry(turn)
        elif place.phase is TreePhase.LOOKING:
            inquiry.offer = offer
            self._join_when_all_know(turn)
        elif is_better(offer, place.path, place.tree_height):
            inquiry.offer = offer
            if place.parent is not None:
                self.close(turn, place.parent.edge)
            place.move(TreeCause.BETTER_OFFER)
            self.look(turn)
            self._join_when_all_know(turn)
        else:
            self._end_inquiry(turn)

    def refused(self, turn: TreeTurn, edge: int, refusal: ParentRefusal) -> None:
        """Whoever is asked will not be the parent."""
        if self.search.is_at(edge):
            self.counts.parents_refused += 1
            self.search.refused(refusal.reason, refusal.others)
            self._end_inquiry(turn)

    def go_on_told(self, turn: TreeTurn) -> None:
        """All below may know by now."""
        place = self.place
        if self.unaware():
            return
        if place.phase is TreePhase.PENDING and place.parent is not None:
            turn.say(place.parent.edge, SubtreeTold(place.parent.turn))
        elif place.phase is TreePhase.LOOKING:
            self._join_when_all_know(turn)
            self.go_on(turn)

    def unaware(self) -> list[int]:
        """The children that may still believe in the place that this node had."""
        is_moving = self.place.phase in (TreePhase.LOOKING, TreePhase.PENDING)
        return self.children.unaware if is_moving else []

    def give_up_slow(self, turn: TreeTurn) -> None:
        """Nobody is waited for endlessly."""
        now_ms = turn.now_ms
        if now_ms >= self.children.tell_ms:
            for edge in self.unaware():
                self.close(turn, edge)
            self.go_on_told(turn)
        for edge in self.children.overdue(now_ms):
            self.close(turn, edge)
        inquiry = self.search.inquiry
        if inquiry is not None and now_ms - inquiry.began_ms >= INQUIRY_MS and not self.unaware():
            self.close(turn, inquiry.edge)

    # -- the parent

    def informed(self, turn: TreeTurn, edge: int, info: ServerInfo) -> None:
        """The other end of an edge says where it stands."""
        inquiry = self.search.inquiry
        if inquiry is not None and edge == inquiry.edge and inquiry.said_height is not None:
            self._taken(turn, inquiry, inquiry.said_height, info)
        elif self.place.parent is not None and self.place.is_parent(edge):
            self._follow(turn, self.place.parent, info)

    def leave(self, turn: TreeTurn) -> None:
        """The parent is lost."""
        place = self.place
        lost_root = place.parent_name if len(place.path) == 2 else None
        self.counts.parents_lost += 1
        if place.parent is not None:
            self.close(turn, place.parent.edge)
        if self.search.inquiry is not None:
            self.close(turn, self.search.inquiry.edge)
        place.move(TreeCause.PARENT_LOST)
        self.look(turn, lost_root)
        self.go_on(turn)

    def leave_silent(self, turn: TreeTurn) -> None:
        """A parent that announces nothing any more is left, also when its connection is alive."""
        voices, parent = self.broadcast.voices, self.place.parent_name
        self.broadcast.forget_silent(turn)
        if self.place.phase is TreePhase.ATTACHED and parent is not None and voices.is_missed(parent, turn.now_ms):
            self.leave(turn)

    def shape_changed(self, turn: TreeTurn) -> None:
        """The subtree may be higher or lower than before."""
        place, height = self.place, self.children.height
        if place.phase is TreePhase.ROOT and place.tree_height != height:
            place.tree_height = height
            self._tell_children(turn)
        elif place.parent is not None and place.parent.said_height != height:
            place.parent.said_height = height
            turn.say(place.parent.edge, SubtreeHeight(height))

    # -- one tree

    def probe(self, turn: TreeTurn) -> None:
        """Ask a node that seems alive, but of which this tree hears nothing: it may be in another tree."""
        if self._ask_next(turn):
            return
        now_ms, voices, is_root = turn.now_ms, self.broadcast.voices, self.place.phase is TreePhase.ROOT
        peers = self._ground.peers(now_ms)
        strangers = voices.strangers(peers, now_ms, has_edges=bool(self.tree_edges()))
        name = self.search.probe(strangers, now_ms, is_root=is_root)
        if not is_root and not (self.place.phase is TreePhase.ATTACHED and voices.is_settled(now_ms)):
            return
        if name is None and not is_root:
            name = self._above(peers)
        if name is not None:  # of those in another tree the root asks first
            self._ask(turn, name, peers[name])

    # -- edges

    def tree_edges(self) -> list[int]:
        """To the children and the parent."""
        edges, parent = self.children.edges, self.place.parent
        return edges if parent is None else [*edges, parent.edge]

    def close(self, turn: TreeTurn, edge: int) -> None:
        """From this side; nothing that was said on it before is lost."""
        turn.close(edge)
        self.broadcast.close(edge)
        if self.children.gone(edge):
            self.shape_changed(turn)
        elif self.place.is_parent(edge):
            self.place.parent = None
        elif self.search.is_at(edge):
            self.search.inquiry = None

    def ended(self, turn: TreeTurn, edge: int) -> None:
        """From the other side, or because it is overrun."""
        self.broadcast.close(edge)
        if self.children.gone(edge):
            self.broadcast.voices.cut(turn.now_ms)
            self.shape_changed(turn)
            self.go_on_told(turn)
        elif self.place.is_parent(edge):
            self.leave(turn)
        elif self.search.is_at(edge):
            self.search.inquiry = None
            self.go_on(turn)

    # -- inside

    def _tell_below(self, turn: TreeTurn) -> None:
        self.children.wait(turn.now_ms)
        self._tell_children(turn)

    def _tell_children(self, turn: TreeTurn) -> None:
        self.children.tell(turn, self.place.path, self.place.tree_height)

    def _candidates(self, peers: Mapping[NodeName, TreePeer], lost_root: NodeName | None = None) -> list[NodeName]:
        me, fanout, announced = self._settings.me, self._settings.fanout, self.broadcast.voices.announced
        return candidates(me, self.children.height, fanout, peers, announced, lost_root)

    def _ask_next(self, turn: TreeTurn) -> bool:
        """Ask the next one of the round; whether there is one."""
        peers = self._ground.peers(turn.now_ms)
        name = self.search.pop(peers.keys(), self.children.names)
        if name is not None:
            self._ask(turn, name, peers[name])
        return name is not None

    def _ask(self, turn: TreeTurn, name: NodeName, peer: TreePeer) -> None:
        edge = self._backlog.new_edge()
        self.search.ask(edge, name, turn.now_ms)
        turn.dial(edge, name, peer.addr)

    def _end_inquiry(self, turn: TreeTurn) -> None:
        if self.search.inquiry is not None:
            self.close(turn, self.search.inquiry.edge)
            self.go_on(turn)

    def _join_when_all_know(self, turn: TreeTurn) -> None:
        inquiry = self.search.inquiry
        if inquiry is not None and inquiry.offer is not None and inquiry.said_height is None and not self.unaware():
            inquiry.said_height = self.children.height
            turn.say(inquiry.edge, Join(inquiry.said_height, *self.broadcast.past(turn.now_ms)))

    def _become_root(self, turn: TreeTurn) -> None:
        self.place.move(TreeCause.NOBODY_FOUND)
        self.place.path, self.place.tree_height = (self._settings.me,), self.children.height
        self._settle(turn)

    def _settle(self, turn: TreeTurn) -> None:
        """It has another place: its children are told, and, if its parent or level is another one, everybody soon. In a
        large tree all have another way to the root when that is lost: they do not speak all at once."""
        now_ms, place, broadcast = turn.now_ms, self.place, self.broadcast
        broadcast.voices.settle(now_ms)
        self.search.settle(now_ms)
        said = broadcast.voices.announced.get(place.me)
        if said is None or (said.parent, said.level) != (place.parent_name, place.level):
            broadcast.own.speak_by(now_ms + int(self._rng.random() * PROBE_MS))
        self._tell_children(turn)

    def _taken(self, turn: TreeTurn, inquiry: Inquiry, said_height: int, info: ServerInfo) -> None:
        """The parent says where it stands: its child has a place."""
        path, place = info.path, self.place
        if place.leads_here(path) or len(path) > DEPTH_MAX or path[:1] != (inquiry.name,):
            self._end_inquiry(turn)
            return
        self.search.inquiry = None
        place.parent = TreeParent(inquiry.edge, inquiry.name, said_height)
        self.counts.parents += 1
        place.move(TreeCause.PARENT_TOOK_IT)
        self.broadcast.open(inquiry.edge, info.past, turn.now_ms)
        self._follow(turn, place.parent, info)

    def _follow(self, turn: TreeTurn, parent: TreeParent, info: ServerInfo) -> None:
        """The place of the parent is another one."""
        place, parent.turn = self.place, info.turn
        path = (self._settings.me, *info.path)
        if not info.path:
            place.move(TreeCause.PARENT_DETACHED)
            place.path = ()
            self._tell_below(turn)
            self.go_on_told(turn)
        elif place.leads_here(info.path) or info.path[0] != parent.name:
            self.leave(turn)
        else:
            place.move(TreeCause.PARENT_SETTLED)
            place.tree_height = info.height
            if path != place.path:
                place.path = path
                self._settle(turn)
            else:
                self._tell_children(turn)

    def _above(self, peers: Mapping[NodeName, TreePeer]) -> NodeName | None:
        """After many repairs a tree is deeper than it has to be: a node that is well above the parent."""
        name = next(iter(self._candidates(peers)), None)
        what = None if name is None else self.broadcast.voices.announced.get(name)
        return name if what is not None and is_well_above(what.level, self.place.path) else None


@attrs.define(slots=True)
class TreeParent:
    """The parent of a node, on its edge."""

    edge: int
    name: NodeName
    said_height: int
    """How many levels it was told that there are below the node."""
    turn: int = 0
    """The change of its place of which it told last."""


class TreePlace:
    """Where a node stands in the tree: its phase, its way to the root, and its parent.

    Invariant: it knows its way to the root exactly as a root or attached; the way begins with the node itself, then
    comes its parent, and nobody is on it twice (docs/protocol, TREE-1, TREE-2)."""

    def __init__(self, me: NodeName) -> None:
        self.me: Final = me
        self.phase = TreePhase.OUT
        self.path: tuple[NodeName, ...] = ()
        """From this node to the root; empty while it is not known."""
        self.tree_height = 0
        """How many levels the whole tree has below its root."""
        self.parent: TreeParent | None = None
        """None: it is a root, or has none."""

    # -- reading

    @property
    def parent_name(self) -> NodeName | None:
        """That of the parent."""
        return self.parent.name if self.parent is not None else None

    @property
    def level(self) -> int | None:
        """None: it is not known."""
        return len(self.path) - 1 if self.path else None

    def is_parent(self, edge: int) -> bool:
        """Whether the parent is at the other end."""
        return self.parent is not None and edge == self.parent.edge

    def leads_here(self, path: Sequence[NodeName]) -> bool:
        """Whether this node stands on the way from another one to a root."""
        return self.me in path

    # -- what happens

    def move(self, cause: TreeCause) -> None:
        """Something changes the phase, perhaps."""
        self.phase = TRANSITIONS.get((self.phase, cause), self.phase)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        path, has_path = self.path, self.phase in (TreePhase.ROOT, TreePhase.ATTACHED)
        must(bool(path) == has_path, f"a way is known as root or attached: {self.me} is {self.phase}, {path}")
        has_parent = self.phase in (TreePhase.ATTACHED, TreePhase.PENDING)
        must((self.parent is not None) == has_parent, f"{self.phase} and a parent fit: {self.me} has {self.parent}")
        must(len(set(path)) == len(path), f"nobody is on a way twice: {path}")
        must(path[:1] in ((), (self.me,)), f"the way of {self.me} begins with it: {path}")
        if path and has_parent:
            must(path[1:2] == (self.parent_name,), f"the parent of {self.me} comes next: {path}, {self.parent_name}")
