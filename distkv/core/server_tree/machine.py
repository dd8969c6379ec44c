"""One node in the server tree: its parent and children, and what all nodes tell each other over these edges.

Knows: which part handles which input, who may be a child, and what is due.  Does not know the store, connections, nor
what services say in frames: it says whom to connect to and what to tell on which edge.

Invariant: there is never a circle, whatever the delays. A node takes a child only while it knows its whole way to the
root, and no node above it can take another parent before all below that node know that they must not take children
(docs/protocol, TREE-1 to TREE-4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

import attrs

from distkv.core.edges import (
    EdgeAsked,
    EdgeEnded,
    EdgeTaken,
    EdgeTold,
    FieldsGiven,
    FramesGiven,
    NodeMeasured,
    TreeInput,
    TreeTurn,
)
from distkv.core.ready import Rng
from distkv.core.server_tree.backlog import EdgeBacklog
from distkv.core.server_tree.parents import DEPTH_MAX, refusal
from distkv.core.server_tree.phase import TreeCause, TreePhase
from distkv.core.server_tree.search import INQUIRY_MS, PROBE_MS
from distkv.core.server_tree.settings import TreeGround, TreeSettings
from distkv.core.server_tree.upward import Upward
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.announcing import Announcement
from distkv.wire.edges import (
    FramesAcked,
    Join,
    ParentOffer,
    ParentRefusal,
    ServerInfo,
    ServiceAcked,
    ServiceFrames,
    SignOfLife,
    SubtreeHeight,
    SubtreeTold,
    TreeFrames,
)

LOOK_MS: Final = 1000
"""So often it is looked whether anybody is too slow, or silent."""


class ServerTree:
    """The machine. All times are monotonic milliseconds."""

    def __init__(self, settings: TreeSettings, rng: Rng, ground: TreeGround) -> None:
        self._settings: Final = settings
        self._ground: Final = ground
        self._backlog: Final = EdgeBacklog()
        self._up: Final = Upward(settings, ground, rng, self._backlog)
        self.broadcast: Final = self._up.broadcast
        self._look_ms = 0

    # -- what happens

    def begin(self, turn: TreeTurn, start: int) -> None:
        """The node serves clients from now on. `start` is larger each time that the process starts."""
        self._look_ms = turn.now_ms
        self.broadcast.begin(turn.now_ms, start)
        self._up.place.move(TreeCause.SERVES)
        self._up.look(turn)
        self._finish(turn)

    def step(self, turn: TreeTurn, what: TreeInput | None) -> None:
        """Take one input, or (None) do what the time has made due."""
        match what:
            case None:
                self._woken(turn)
            case EdgeAsked():
                self._asked(turn, what)
            case EdgeTold(edge=edge):
                if edge in self._backlog.edges:
                    self._told(turn, what)
            case EdgeTaken(edge=edge, count=count):
                self._backlog.taken(edge, count)
            case EdgeEnded(edge=edge):
                if self._backlog.ended(edge):
                    self._up.ended(turn, edge)
            case FramesGiven(service=service, bodies=bodies):
                self.broadcast.give(service, bodies, turn.now_ms)
            case FieldsGiven(service=service, fields=fields):
                self.broadcast.own.change(service, fields, turn.now_ms)
            case NodeMeasured(load=load):
                self.broadcast.own.load = load
            case _:
                assert_never(what)
        self._finish(turn)

    def wake_ms(self) -> int | None:
        """When a step is wanted, if nothing happens before."""
        search, children = self._up.search, self._up.children
        if self.phase is TreePhase.OUT:
            return None
        if self._up.unaware():
            next_ms = children.tell_ms
        elif search.inquiry is not None:
            next_ms = search.inquiry.began_ms + INQUIRY_MS
        else:
            next_ms = search.next_ms
        return min(self._look_ms, self.broadcast.own.speak_ms, next_ms)

    # -- reading

    @property
    def phase(self) -> TreePhase:
        """How it stands."""
        return self._up.place.phase

    @property
    def path(self) -> tuple[NodeName, ...]:
        """From this node to the root; empty while it is not known."""
        return self._up.place.path

    @property
    def parent(self) -> NodeName | None:
        """None: it is a root, or has none."""
        return self._up.place.parent_name

    @property
    def level(self) -> int | None:
        """None: it is not known."""
        return self._up.place.level

    @property
    def children(self) -> list[NodeName]:
        """By name."""
        return self._up.children.names

    @property
    def height(self) -> int:
        """How many levels there are below this node."""
        return self._up.children.height

    @property
    def announced(self) -> Mapping[NodeName, Announcement]:
        """What each node in the tree said last of itself."""
        return self.broadcast.voices.announced

    @property
    def edges(self) -> list[int]:
        """All that are open."""
        return self._backlog.edges

    def apart(self, now_ms: int) -> list[NodeName]:
        """The nodes that seem alive, and of which nothing comes by the tree."""
        return sorted(name for name in self._ground.peers(now_ms) if name not in self.announced)

    def statistics(self) -> dict[str, int]:
        """What happened since the start."""
        counts, voices = self.broadcast.counts, self.broadcast.voices
        return {**attrs.asdict(self._up.counts), **attrs.asdict(counts), "bad_announcements": voices.bad_count}

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here or by a part does not hold. `broadcast` has
        a check of its own, which looks at all that is kept."""
        up = self._up
        for part in (up.place, up.children, up.search, self._backlog):
            part.check()
        edges = [*up.tree_edges(), *([] if up.search.inquiry is None else [up.search.inquiry.edge])]
        must(len(set(edges)) == len(edges), f"no two neighbours are on one edge: {edges}")
        must(set(edges) <= set(self._backlog.edges), f"neighbours are on open edges: {edges} of {self._backlog.edges}")

    # -- inside

    def _woken(self, turn: TreeTurn) -> None:
        up, now_ms = self._up, turn.now_ms
        self._look_ms = now_ms + LOOK_MS
        self.broadcast.acknowledge(turn)
        up.give_up_slow(turn)
        up.leave_silent(turn)
        if now_ms >= self.broadcast.own.speak_ms:
            self._announce(now_ms)
        if self.phase is TreePhase.LOOKING:
            up.go_on(turn)
        elif up.search.inquiry is None and now_ms >= up.search.next_ms:
            up.probe(turn)

    def _finish(self, turn: TreeTurn) -> None:
        """What is to be sent is said, and edges that are overrun end."""
        counted = 0
        self.broadcast.send(turn)
        while counted < len(turn.effects):
            effects, counted = turn.effects[counted:], len(turn.effects)
            for edge in dict.fromkeys(self._backlog.overrun(effects)):
                if self._backlog.ended(edge):
                    self._up.counts.edge_overrun += 1
                    turn.close(edge)
                    self._up.ended(turn, edge)

    def _announce(self, now_ms: int) -> None:
        if not self.path:
            self.broadcast.own.speak_ms = now_ms + PROBE_MS
            return  # its place is known soon
        addr, own, level, children = self._settings.addr, self.broadcast.own, len(self.path) - 1, len(self.children)
        what = Announcement(addr, own.load, level, self.height, children, self.parent, own.said_fields())
        self.broadcast.announce(what, now_ms)

    # -- children

    def _refusal(self, name: NodeName) -> str | None:
        """Why this node cannot be a parent now."""
        is_full = self._up.children.count_beside(name) >= self._settings.fanout
        return "out" if self.phase is TreePhase.OUT else refusal(name, self.path, is_full=is_full)

    def _asked(self, turn: TreeTurn, what: EdgeAsked) -> None:
        edge, name, up = what.edge, what.name, self._up
        self._backlog.opened(edge)
        is_known = name != self._settings.me and self._ground.is_registered(name, what.life)
        why = self._refusal(name) if is_known else "unknown"
        if why is None:
            up.children.asked(edge, name, turn.now_ms)
            turn.say(edge, ParentOffer(self.path, up.place.tree_height))
        else:
            turn.say(edge, ParentRefusal(why, tuple(self.children) if why == "full" else ()))
            turn.close(edge)

    def _told(self, turn: TreeTurn, what: EdgeTold) -> None:
        """What does not fit is of no effect."""
        edge, item, up = what.edge, what.item, self._up
        match item:
            case ParentOffer():
                up.offered(turn, edge, item)
            case ParentRefusal():
                up.refused(turn, edge, item)
            case Join():
                self._joins(turn, edge, item)
            case ServerInfo():
                up.informed(turn, edge, item)
            case SubtreeHeight(height=height):
                if up.children.has_height(edge, height):
                    up.shape_changed(turn)
            case SubtreeTold(turn=number):
                if up.children.knows(edge, number):
                    up.go_on_told(turn)
            case TreeFrames(frames=frames):
                if edge in up.tree_edges():
                    self.broadcast.take(edge, frames, turn)
            case FramesAcked(count=count):
                self.broadcast.acked(edge, count)
            case ServiceFrames():
                if edge in up.tree_edges():
                    self.broadcast.take_of_service(edge, item, turn)
            case ServiceAcked(service=service, count=count):
                self.broadcast.acked_of_service(edge, service, count)
            case SignOfLife():
                pass
            case _:
                assert_never(item)

    def _joins(self, turn: TreeTurn, edge: int, join: Join) -> None:
        up = self._up
        child, place = up.children.waiting(edge), up.place
        if child is None:
            return
        why = self._refusal(child.name)
        if why is None and len(self.path) + join.height > DEPTH_MAX:
            why = "deep"
        if why is not None:
            turn.say(edge, ParentRefusal(why, self.path[:0:-1]))
            up.close(turn, edge)
            return
        older = up.children.take(edge, join.height)
        past = self.broadcast.past(turn.now_ms)
        turn.say(edge, ServerInfo(self.path, place.tree_height, up.children.turn, *past))  # first: it has the past
        self.broadcast.open(edge, join.past, turn.now_ms)
        for lost in older:
            up.close(turn, lost)
        up.shape_changed(turn)
