"""The edges of simulated nodes in the server tree, in virtual time.

Knows: when what is said on an edge arrives, and how silence is noticed.  Does not know how a node chooses its parent
(`core.server_tree`), nor what else a node does.

Invariant: what is said on an edge arrives in its order, or the edge ends on both sides within bounded time. What its
other end cannot take yet waits with the one who said it.
"""

from __future__ import annotations

from collections import Counter, deque
from functools import partial
from typing import Final, Protocol

import attrs

from distkv.core.edges import (
    TAKEN_ITEMS,
    Close,
    Dial,
    EdgeAsked,
    EdgeEnded,
    EdgeInput,
    EdgeTaken,
    EdgeTold,
    Say,
)
from distkv.model.event import NodeName
from distkv.sim.agenda import Agenda
from distkv.sim.network import Network
from distkv.wire.declared import pack
from distkv.wire.edges import EdgeItem, ServiceFrames, edge_fields, read_edge
from distkv.wire.fields import read_map
from distkv.wire.packing import unpack

SILENT_MS: Final = 3000
LOOK_MS: Final = 1000
"""How often an end looks whether the other one is there."""
BLOCKED_MS: Final = 100
"""What cannot arrive now is tried again so soon."""


class VirtualNode(Protocol):
    """A node that has edges."""

    @property
    def host_name(self) -> str:
        """That of its machine."""

    @property
    def node(self) -> NodeName: ...
    @property
    def life(self) -> int: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def is_paused(self) -> bool: ...

    def give(self, what: EdgeInput) -> None:
        """Have it take an input, now or when it goes on."""


class EdgesBetween(Protocol):
    """What lies between the nodes."""

    @property
    def agenda(self) -> Agenda: ...
    @property
    def network(self) -> Network: ...
    @property
    def notes(self) -> Counter[str]: ...

    def edges_at(self, addr: str) -> VirtualEdges | None:
        """Those of whoever listens there."""


@attrs.define(eq=False)
class EdgeEnd:
    """One end of an edge: what is on its way to it."""

    edges: VirtualEdges
    number: int
    """Its node's own; 0: the question has not arrived there yet."""
    coming: deque[tuple[int, EdgeItem | None]] = attrs.field(factory=deque)
    """Each with the time at which it arrives; None: the other end is closed."""
    heard_ms: int = 0
    taken: int = 0
    """How many items that were said here have left, besides frames of services."""
    is_open: bool = True
    is_expecting: bool = False
    """Whether it is planned that something arrives."""

    @property
    def node(self) -> VirtualNode:
        return self.edges.node


class VirtualEdges:
    """The edges of one node; as an `EdgeOutlets` they carry out what its machine wants."""

    def __init__(self, node: VirtualNode, between: EdgesBetween, *, is_plain: bool = False) -> None:
        """`is_plain`: items do not become bytes on their way."""
        self.node: Final = node
        self.is_stalled = False
        """Whether the node takes nothing of what is said to it, although it is there."""
        self.said = 0
        """How many items were said."""
        self._between: Final = between
        self._is_plain: Final = is_plain
        self._ends: Final = dict[int, tuple[EdgeEnd, EdgeEnd]]()
        """By its own number, each end here, and the other one."""
        self._asked = 0

    @property
    def longest(self) -> int:
        """How many items wait on the edge on which most do, besides frames of services."""
        waiting = (there.coming for _, there in self._ends.values())
        return max((sum(not isinstance(item, ServiceFrames) for _, item in coming) for coming in waiting), default=0)

    def stop(self) -> None:
        """The process ends; whoever is connected is told, if the way is open."""
        for here, there in list(self._ends.values()):
            self._shut(here, there)

    def forget(self) -> None:
        """The machine forgets the connections, and the other ends are not told."""
        for here, _ in list(self._ends.values()):
            self._end(here)

    # -- what the machine wants

    def dial(self, what: Dial) -> None:
        """Ask whoever listens there; the question arrives, if it can."""
        here, there = EdgeEnd(self, what.edge), EdgeEnd(self, 0)
        here.heard_ms = self._now_ms
        self._ends[what.edge] = here, there
        self._between.agenda.later(self._way_ms(what.name), partial(self._arrive, what, here))

    def say(self, what: Say) -> None:
        """Tell the other end of an edge, if it is open."""
        ends = self._ends.get(what.edge)
        if ends is not None:
            item = what.item if self._is_plain else _carried(what.item)
            self.said += 1
            self._send(ends[1], item)

    def close(self, what: Close) -> None:
        """End an edge, if it is open; the other end notices when all that was said before has arrived."""
        ends = self._ends.get(what.edge)
        if ends is not None:
            self._shut(*ends)

    # -- inside

    @property
    def _now_ms(self) -> int:
        return self._between.agenda.now_ms

    def _way_ms(self, name: str) -> int:
        """By a generator of its own, so that trees move nothing else."""
        return self._between.network.answer_ms(f"edges of {self.node.host_name}", name)

    def _arrive(self, what: Dial, here: EdgeEnd) -> None:
        """The question is there, if anybody is."""
        if not here.is_open or not self.node.is_running:
            return
        host = self._between.edges_at(what.addr)
        if host is None:
            self._send(here, None)
        elif not _passes(self, host):
            return  # to the one who asked it is silence
        elif host.node.is_paused:
            self._between.agenda.later(BLOCKED_MS, partial(self._arrive, what, here))
        else:
            host._take_in(self, here)

    def _take_in(self, asking: VirtualEdges, asker: EdgeEnd) -> None:
        """A node asks on a new edge."""
        self._asked += 1
        here = EdgeEnd(self, self._asked, heard_ms=self._now_ms)
        self._ends[self._asked] = here, asker
        asking._ends[asker.number] = asker, here
        for one, other in ((asker, here), (here, asker)):
            self._between.agenda.later(LOOK_MS, partial(one.edges._watch, one, other))
        self.node.give(EdgeAsked(self._asked, asking.node.node, asking.node.life))

    def _send(self, to: EdgeEnd, item: EdgeItem | None) -> None:
        """Something is on its way to an end of another node, or (None) nothing is any more."""
        last_ms = to.coming[-1][0] if to.coming else 0
        at_ms = max(last_ms, self._now_ms + (1 if item is None else self._way_ms(to.node.host_name)))
        to.coming.append((at_ms, item))
        if not to.is_expecting:
            to.is_expecting = True
            self._between.agenda.at(at_ms, partial(to.edges._expect, to))

    def _expect(self, here: EdgeEnd) -> None:
        """Something arrives at an end here."""
        node, network, agenda = self.node, self._between.network, self._between.agenda
        while here.is_open and node.is_running and here.coming and here.coming[0][0] <= self._now_ms:
            _, there = self._ends[here.number]
            item = here.coming[0][1]
            if not _passes(self, there.edges) or node.is_paused or (self.is_stalled and item is not None):
                agenda.later(BLOCKED_MS, partial(self._expect, here))
                return
            here.coming.popleft()
            if item is None or network.breaks(f"edges of {node.host_name}", there.node.host_name):
                self._break(here, there)
                return
            here.heard_ms = self._now_ms
            if not isinstance(item, ServiceFrames):
                there.edges._left(there)
            node.give(EdgeTold(here.number, item))
        here.is_expecting = bool(here.coming) and here.is_open
        if here.is_expecting:
            agenda.at(here.coming[0][0], partial(self._expect, here))

    def _left(self, here: EdgeEnd) -> None:
        """An item that was said here was taken."""
        here.taken += 1
        if here.taken % TAKEN_ITEMS == 0 and here.is_open and self.node.is_running:
            self.node.give(EdgeTaken(here.number, TAKEN_ITEMS))

    def _shut(self, here: EdgeEnd, there: EdgeEnd) -> None:
        here.is_open = False
        self._ends.pop(here.number, None)
        if there.is_open and there.number:
            self._send(there, None)

    def _break(self, here: EdgeEnd, there: EdgeEnd) -> None:
        self._end(here)
        if there.is_open and there.number:
            self._send(there, None)

    def _end(self, here: EdgeEnd) -> None:
        """It is over, and this node did not end it."""
        here.is_open = False
        if self._ends.pop(here.number, None) is not None:
            self.node.give(EdgeEnded(here.number))

    def _watch(self, here: EdgeEnd, there: EdgeEnd) -> None:
        """Signs of life come each second from an end that runs and is reached."""
        if not here.is_open or not self.node.is_running:
            return
        if not self.node.is_paused:
            is_there = there.is_open and there.node.is_running and not there.node.is_paused
            if is_there and _passes(self, there.edges):
                here.heard_ms = self._now_ms
            elif self._now_ms - here.heard_ms >= SILENT_MS:
                self._end(here)
                return
        self._between.agenda.later(LOOK_MS, partial(self._watch, here, there))

    # ruff: noqa: SLF001  # both ends of an edge belong to this class


def _passes(one: VirtualEdges, other: VirtualEdges) -> bool:
    return one._between.network.connects(one.node.host_name, other.node.host_name)


def _carried(item: EdgeItem) -> EdgeItem:
    """As it is when it has become bytes, and was read again."""
    return read_edge(read_map(unpack(pack(edge_fields(item))), "item"))
