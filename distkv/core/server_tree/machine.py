"""The place of one node in the server tree, and what it tells its neighbours there.

Knows: this node's way to the root, its parent and children, and when each is told what.  Does not know the store,
connections, nor what services say in frames: it says whom to connect to and what to tell on which edge.

Invariant: there is never a circle, whatever the delays. A node takes a child only while it knows its whole way to the
root, and no node above it can take another parent before all below that node know that they must not take children
(docs/protocol, TREE-1 to TREE-4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, assert_never

from distkv.core.ready import Rng
from distkv.core.server_tree.broadcast import Broadcast
from distkv.core.server_tree.children import Children
from distkv.core.server_tree.effects import Effects, TreeEffect
from distkv.core.server_tree.parents import DEPTH_MAX, TreePeer, candidates, is_better, is_well_above, refusal
from distkv.core.server_tree.phase import TRANSITIONS, TreeCause, TreePhase
from distkv.core.server_tree.search import INQUIRY_MS, PROBE_MS, Inquiry, Search
from distkv.core.server_tree.settings import TreeCounts, TreeSettings
from distkv.model.event import NodeName
from distkv.wire.announcing import Announcement
from distkv.wire.edges import (
    EdgeItem,
    FramesAcked,
    Join,
    ParentOffer,
    ParentRefusal,
    ServerInfo,
    SignOfLife,
    SubtreeHeight,
    SubtreeTold,
    TreeFrames,
)

TELL_MS: Final = 1500
"""How long each level below may take to say that it knows."""
WAITING_MS: Final = 2 * INQUIRY_MS + TELL_MS * DEPTH_MAX
"""How long a node that asked may take to join."""


class ServerTree:
    """The machine. All times are monotonic milliseconds. What is to be done after a call, `take` gives."""

    def __init__(self, settings: TreeSettings, rng: Rng, is_registered: Callable[[NodeName], bool]) -> None:
        self.phase = TreePhase.OUT
        self.path: tuple[NodeName, ...] = ()
        """From this node to the root; empty while it is not known."""
        self.counts: Final = TreeCounts()
        self.broadcast: Final = Broadcast(settings.me, settings.announce_ms, is_registered)
        self.load = 0
        """How many connections the node serves: it announces that."""
        self._settings: Final = settings
        self._me: Final = settings.me
        self._rng: Final = rng
        self._effects: Final = Effects()
        self._peers: Mapping[NodeName, TreePeer] = {}
        self._children: Final = Children()
        self._search: Final = Search(settings.me, settings.announce_ms, rng)
        self._parent: tuple[int, NodeName] | None = None
        self._parent_turn = 0
        self._turn = 0
        """Counts the changes of this node's place."""
        self._said_height = 0
        self._tree_height = 0
        self._tell_ms = 0
        """Until when all below are waited for."""
        self._speak_ms = 0
        """When the next announcement is due."""

    # -- when

    def wake_ms(self) -> int | None:
        """When `woken` is to be called, if nothing happens before."""
        if self.phase is TreePhase.OUT:
            return None
        if self._unaware():
            next_ms = self._tell_ms
        elif self._search.inquiry is not None:
            next_ms = self._search.inquiry.began_ms + INQUIRY_MS
        else:
            next_ms = self._search.next_ms
        return min(self._speak_ms, next_ms)

    def take(self) -> list[TreeEffect]:
        """What is to be done, in this order."""
        for edge, frames in self.broadcast.flood.all_due():
            self._effects.say(edge, TreeFrames(frames))
        return self._effects.take()

    # -- what happens

    def begin(self, now_ms: int, start: int) -> None:
        """The node serves clients. `start` is larger each time that the process starts."""
        self.broadcast.begin(now_ms, start)
        self._speak_ms = now_ms
        self._move(TreeCause.SERVES)
        self._look(now_ms, lost_root=None)

    def end(self) -> None:
        """It does not any more."""
        for edge in [*self._children.all_edges, *self._edges_up()]:
            self._close(edge)
        self._move(TreeCause.ENDS)
        self.path = ()

    def see(self, peers: Mapping[NodeName, TreePeer]) -> None:
        """The other registered nodes that seem alive."""
        self._peers = peers

    def woken(self, now_ms: int) -> None:
        """The time in `wake_ms` came."""
        if self.phase is TreePhase.OUT:
            return
        self._give_up_slow(now_ms)
        self._leave_silent_parent(now_ms)
        if now_ms >= self._speak_ms:
            self._announce(now_ms)
        if self.phase is TreePhase.LOOKING:
            self._go_on_looking(now_ms)
        elif self._search.inquiry is None and now_ms >= self._search.next_ms:
            self._probe(now_ms)

    def give(self, service: str, body: bytes, now_ms: int) -> None:
        """Say something to all nodes: `body` reaches each one once, for `service`, in the order of the calls.

        Raises:
            ValueError: it is too large.
        """
        self.broadcast.flood.give(service, body, now_ms)

    def asked(self, name: NodeName, now_ms: int) -> int:
        """A node asks whether this one would be its parent; the number of the edge."""
        edge = self._effects.new_edge()
        why = self._refusal(name)
        if why is None:
            self._children.asked(edge, name, now_ms)
            self._effects.say(edge, ParentOffer(self.path, self._tree_height))
        else:
            self._effects.say(edge, ParentRefusal(why, tuple(self._children.names) if why == "full" else ()))
            self._effects.close(edge)
        return edge

    def told(self, edge: int, item: EdgeItem, now_ms: int) -> None:
        """The other end of an edge said something. What does not fit is of no effect."""
        match item:
            case ParentOffer():
                self._offered(edge, item, now_ms)
            case ParentRefusal(reason=reason, others=others):
                if self._search.is_at(edge):
                    self.counts.parents_refused += 1
                    self._search.refused(reason, others)
                    self._end_inquiry(now_ms)
            case Join():
                self._joins(edge, item, now_ms)
            case ServerInfo():
                self._informed(edge, item, now_ms)
            case SubtreeHeight(height=height):
                if self._children.has_height(edge, height):
                    self._shape_changed()
            case SubtreeTold(turn=turn):
                if self._children.knows(edge, min(turn, self._turn)):
                    self._go_on_told(now_ms)
            case TreeFrames():
                self._take_frames(edge, item, now_ms)
            case FramesAcked(count=count):
                self.broadcast.flood.acked(edge, count)
            case SignOfLife():
                pass
            case _:
                assert_never(item)

    def ended(self, edge: int, now_ms: int) -> None:
        """An edge is over, from the other side."""
        self.broadcast.flood.close(edge)
        if self._children.gone(edge):
            self.broadcast.voices.cut(now_ms)
            self._shape_changed()
            self._go_on_told(now_ms)
        elif self._is_parent(edge):
            self._leave_parent(now_ms)
        elif self._search.is_at(edge):
            self._search.inquiry = None
            self._go_on_looking(now_ms)

    # -- reading

    @property
    def parent(self) -> NodeName | None:
        """None: it is a root, or has none."""
        return self._parent[1] if self._parent is not None else None

    @property
    def level(self) -> int | None:
        """None: it is not known."""
        return len(self.path) - 1 if self.path else None

    @property
    def children(self) -> list[NodeName]:
        """By name."""
        return self._children.names

    @property
    def height(self) -> int:
        """How many levels there are below this node."""
        return self._children.height

    @property
    def announced(self) -> Mapping[NodeName, Announcement]:
        """What each node in the tree said last of itself."""
        return self.broadcast.voices.announced

    def apart(self) -> list[NodeName]:
        """The nodes that seem alive, and of which nothing comes by the tree."""
        return sorted(name for name in self._peers if name not in self.announced)

    # -- looking for a parent

    def _look(self, now_ms: int, lost_root: NodeName | None) -> None:
        """Without a parent: all below must know before another one is taken."""
        self.path = ()
        self._search.begin(now_ms, lost_root)
        self._tell_below(now_ms)

    def _tell_below(self, now_ms: int) -> None:
        self._tell_ms = now_ms + TELL_MS * (1 + self.height)
        self._tell_children()

    def _go_on_looking(self, now_ms: int) -> None:
        """Ask the next node, or begin another round; or become the root."""
        search = self._search
        if self.phase is not TreePhase.LOOKING or search.inquiry is not None or now_ms < search.next_ms:
            return
        if search.pass_time(now_ms):
            search.begin_round(self._candidates(search.lost_root))
        if not self._ask_next(now_ms) and search.end_round(now_ms):
            self._become_root(now_ms)

    def _candidates(self, lost_root: NodeName | None) -> list[NodeName]:
        fanout = self._settings.fanout
        return candidates(self._me, self.height, fanout, self._peers, self.announced, lost_root)

    def _ask_next(self, now_ms: int) -> bool:
        """Ask the next one of the round; whether there is one."""
        name = self._search.pop(self._peers.keys(), self._children.names)
        if name is not None:
            self._ask(name, now_ms)
        return name is not None

    def _ask(self, name: NodeName, now_ms: int) -> None:
        edge = self._effects.new_edge()
        self._search.ask(edge, name, now_ms)
        self._effects.dial(edge, name, self._peers[name].addr)

    def _offered(self, edge: int, offer: ParentOffer, now_ms: int) -> None:
        inquiry = self._search.inquiry
        if inquiry is None or edge != inquiry.edge or inquiry.offer is not None:
            return
        is_deep = len(offer.path) + self.height > DEPTH_MAX
        if is_deep:
            self._search.ask_before(tuple(reversed(offer.path)))
        if is_deep or not offer.path or self._me in offer.path:
            self._end_inquiry(now_ms)
        elif self.phase is TreePhase.LOOKING:
            inquiry.offer = offer
            self._join_when_all_know(now_ms)
        elif is_better(offer, self.path, self._tree_height):
            inquiry.offer = offer
            if self._parent is not None:
                self._close(self._parent[0])
            self._move(TreeCause.BETTER_OFFER)
            self._look(now_ms, lost_root=None)
            self._join_when_all_know(now_ms)
        else:
            self._end_inquiry(now_ms)

    def _end_inquiry(self, now_ms: int) -> None:
        if self._search.inquiry is not None:
            self._close(self._search.inquiry.edge)
            self._go_on_looking(now_ms)

    def _join_when_all_know(self, now_ms: int) -> None:
        inquiry = self._search.inquiry
        if inquiry is not None and inquiry.offer is not None and not inquiry.is_joining and not self._unaware():
            inquiry.is_joining = True
            self._said_height = self.height
            self._effects.say(inquiry.edge, Join(self.height, self.broadcast.past(now_ms)))

    def _become_root(self, now_ms: int) -> None:
        self._move(TreeCause.NOBODY_FOUND)
        self.path, self._tree_height = (self._me,), self.height
        self._settle(now_ms)

    def _settle(self, now_ms: int) -> None:
        """It has another place: its children are told, and, if its parent or level is another one, everybody soon. In a
        large tree all have another way to the root when that is lost: they do not speak all at once."""
        self.broadcast.voices.settle(now_ms)
        self._search.settle(now_ms)
        said = self.announced.get(self._me)
        if said is None or (said.parent, said.level) != (self.parent, self.level):
            self._speak_ms = min(self._speak_ms, now_ms + int(self._rng.random() * PROBE_MS))
        self._tell_children()

    # -- the parent

    def _informed(self, edge: int, info: ServerInfo, now_ms: int) -> None:
        inquiry = self._search.inquiry
        if inquiry is not None and edge == inquiry.edge and inquiry.is_joining:
            self._taken(inquiry, info, now_ms)
        elif self._is_parent(edge):
            self._follow_parent(info, now_ms)

    def _taken(self, inquiry: Inquiry, info: ServerInfo, now_ms: int) -> None:
        """The parent says where it stands: its child has a place."""
        if not info.path or self._me in info.path or len(info.path) > DEPTH_MAX:
            self._end_inquiry(now_ms)
            return
        self._search.inquiry, self._parent = None, (inquiry.edge, inquiry.name)
        self.counts.parents += 1
        self._move(TreeCause.PARENT_TOOK_IT)
        self.broadcast.open(inquiry.edge, info.past, now_ms)
        self._follow_parent(info, now_ms)

    def _follow_parent(self, info: ServerInfo, now_ms: int) -> None:
        """The place of the parent is another one."""
        self._parent_turn = info.turn
        if not info.path:
            self._move(TreeCause.PARENT_DETACHED)
            self.path = ()
            self._tell_below(now_ms)
            self._go_on_told(now_ms)
        elif self._me in info.path:
            self._leave_parent(now_ms)
        else:
            self._move(TreeCause.PARENT_SETTLED)
            self._tree_height = info.height
            path = (self._me, *info.path)
            if path != self.path:
                self.path = path
                self._settle(now_ms)
            else:
                self._tell_children()

    def _go_on_told(self, now_ms: int) -> None:
        """All below may know by now."""
        if self._unaware():
            return
        if self.phase is TreePhase.PENDING and self._parent is not None:
            self._effects.say(self._parent[0], SubtreeTold(self._parent_turn))
        elif self.phase is TreePhase.LOOKING:
            self._join_when_all_know(now_ms)
            self._go_on_looking(now_ms)

    def _leave_parent(self, now_ms: int) -> None:
        lost_root = self.parent if len(self.path) == 2 else None
        self.counts.parents_lost += 1
        for edge in self._edges_up():
            self._close(edge)
        self._move(TreeCause.PARENT_LOST)
        self._look(now_ms, lost_root)
        self._go_on_looking(now_ms)

    def _leave_silent_parent(self, now_ms: int) -> None:
        """A parent that announces nothing any more is left, also when its connection is alive."""
        voices = self.broadcast.voices
        voices.forget_silent(now_ms)
        if self.phase is TreePhase.ATTACHED and self.parent is not None and voices.is_missed(self.parent, now_ms):
            self._leave_parent(now_ms)

    # -- children

    def _refusal(self, name: NodeName) -> str | None:
        """Why this node cannot be a parent now."""
        is_full = self._children.count_beside(name) >= self._settings.fanout
        return "out" if self.phase is TreePhase.OUT else refusal(name, self.path, is_full=is_full)

    def _joins(self, edge: int, join: Join, now_ms: int) -> None:
        child = self._children.waiting(edge)
        if child is None:
            return
        why = self._refusal(child.name)
        if why is None and len(self.path) + join.height > DEPTH_MAX:
            why = "deep"
        if why is not None:
            self._effects.say(edge, ParentRefusal(why, self.path[:0:-1]))
            self._close(edge)
            return
        for older in self._children.take(edge, join.height, self._turn):
            self._close(older)
        self._effects.say(edge, ServerInfo(self.path, self._tree_height, self._turn, self.broadcast.past(now_ms)))
        self.broadcast.open(edge, join.past, now_ms)
        self._shape_changed()

    def _shape_changed(self) -> None:
        """The subtree may be higher or lower than before."""
        if self.phase is TreePhase.ROOT and self._tree_height != self.height:
            self._tree_height = self.height
            self._tell_children()
        elif self._parent is not None and self._said_height != self.height:
            self._said_height = self.height
            self._effects.say(self._parent[0], SubtreeHeight(self.height))

    def _tell_children(self) -> None:
        """Where this node stands now."""
        self._turn += 1
        for edge in self._children.edges:
            self._effects.say(edge, ServerInfo(self.path, self._tree_height, self._turn))
        if not self.path:
            for edge in self._children.waiting_edges():
                self._effects.say(edge, ParentRefusal("detached"))

    def _unaware(self) -> list[int]:
        """The children that may still believe in the place that this node had."""
        is_moving = self.phase in (TreePhase.LOOKING, TreePhase.PENDING)
        return self._children.unaware(self._turn) if is_moving else []

    def _give_up_slow(self, now_ms: int) -> None:
        """Nobody is waited for endlessly."""
        if now_ms >= self._tell_ms:
            for edge in self._unaware():
                self._close(edge)
            self._go_on_told(now_ms)
        for edge in self._children.overdue(now_ms - WAITING_MS):
            self._close(edge)
        inquiry = self._search.inquiry
        if inquiry is not None and now_ms - inquiry.began_ms >= INQUIRY_MS and not self._unaware():
            self._close(inquiry.edge)

    # -- one tree

    def _probe(self, now_ms: int) -> None:
        """Ask a node that seems alive, but of which this tree hears nothing: it may be in another tree."""
        if self._ask_next(now_ms):
            return
        is_root = self.phase is TreePhase.ROOT
        strangers = self.broadcast.voices.strangers(self._peers, now_ms, has_edges=bool(self._tree_edges()))
        name = self._search.probe(strangers, now_ms, is_root=is_root)
        if is_root:
            if name is not None:
                self._ask(name, now_ms)
        elif self.phase is TreePhase.ATTACHED and self.broadcast.voices.is_settled(now_ms):
            if name is not None:
                self._ask(name, now_ms)  # the root could not
            else:
                self._rise(now_ms)

    def _rise(self, now_ms: int) -> None:
        """After many repairs a tree is deeper than it has to be: ask a node that is well above the parent."""
        for name in self._candidates(None)[:1]:
            what = self.announced.get(name)
            if what is not None and is_well_above(what.level, self.path):
                self._ask(name, now_ms)

    # -- frames

    def _take_frames(self, edge: int, item: TreeFrames, now_ms: int) -> None:
        if edge in self._tree_edges():
            for frame in self.broadcast.take(edge, item.frames, now_ms):
                self._effects.deliver(frame)
            self._effects.say(edge, FramesAcked(len(item.frames)))

    def _announce(self, now_ms: int) -> None:
        if not self.path:
            self._speak_ms = now_ms + PROBE_MS
            return  # its place is known soon
        self._speak_ms = now_ms + self._settings.announce_ms
        level, children = len(self.path) - 1, len(self.children)
        services = dict(self.broadcast.services)
        what = Announcement(self._settings.addr, self.load, level, self.height, children, self.parent, services)
        self.broadcast.announce(what, now_ms)

    # -- edges

    def _close(self, edge: int) -> None:
        """From this side; nothing that was said on it before is lost."""
        self._effects.close(edge)
        self.broadcast.flood.close(edge)
        if self._children.gone(edge):
            self._shape_changed()
        elif self._is_parent(edge):
            self._parent = None
        elif self._search.is_at(edge):
            self._search.inquiry = None

    def _is_parent(self, edge: int) -> bool:
        return self._parent is not None and edge == self._parent[0]

    def _tree_edges(self) -> list[int]:
        edges = self._children.edges
        return edges if self._parent is None else [*edges, self._parent[0]]

    def _edges_up(self) -> list[int]:
        edges = [] if self._parent is None else [self._parent[0]]
        return edges if self._search.inquiry is None else [*edges, self._search.inquiry.edge]

    def _move(self, cause: TreeCause) -> None:
        self.phase = TRANSITIONS.get((self.phase, cause), self.phase)
