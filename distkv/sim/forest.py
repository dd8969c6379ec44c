"""The server trees of a fleet: each node's machine, and the connections between them, in virtual time.

Knows: when what is said on an edge arrives, and how silence is noticed.  Does not know how a node chooses its parent
(`core.server_tree`), nor the store, on which no tree depends.

Invariant: what is said on an edge arrives in its order, or the edge ends on both sides within bounded time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Final, assert_never

import attrs

from distkv.core.server_tree.effects import Close, Deliver, Dial, Say
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.parents import TreePeer
from distkv.core.server_tree.phase import TreePhase
from distkv.core.server_tree.settings import TreeSettings
from distkv.model.event import NodeName
from distkv.sim.agenda import Agenda
from distkv.sim.network import Network
from distkv.wire.edges import EdgeItem, TreeFrame, edge_fields, read_edge
from distkv.wire.fields import read_map
from distkv.wire.packing import pack, unpack

SILENT_MS: Final = 3000
LOOK_MS: Final = 1000
"""How often an end looks whether the other one is there, and a node who seems alive."""
ALIVE_MS: Final = 15_000
"""A node that ended seems alive for so long."""
BLOCKED_MS: Final = 100
"""What cannot arrive now is tried again so soon."""


@attrs.define(eq=False)
class Site:
    """A node's machine."""

    name: NodeName
    tree: ServerTree
    connections: dict[int, TreeConnection] = attrs.field(factory=dict)
    """By the numbers of this site's edges."""
    heard: list[TreeFrame] = attrs.field(factory=list)
    """What came for services."""
    is_running: bool = True
    ended_ms: int = 0
    phase: tuple[object, ...] = ()
    """As it was last told."""
    wake_at_ms: int | None = None


@attrs.define(eq=False)
class ConnectionEnd:
    """One side of a connection: what is on its way to it."""

    site: Site
    edge: int
    coming: deque[EdgeItem] = attrs.field(factory=deque)
    arrives_ms: int = 0
    heard_ms: int = 0
    is_open: bool = True


@attrs.define(eq=False)
class TreeConnection:
    """A connection on which one node asked another one to be its parent."""

    child: ConnectionEnd
    parent: ConnectionEnd

    def end_of(self, site: Site) -> ConnectionEnd:
        return self.child if self.child.site is site else self.parent

    def other(self, end: ConnectionEnd) -> ConnectionEnd:
        return self.parent if end is self.child else self.child


class Forest:
    """All trees; one, when all is well."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        seed: int | str,
        *,
        fanout: int = 16,
        announce_ms: int = 5000,
        peers_of: Callable[[NodeName], Mapping[NodeName, TreePeer]] | None = None,
        is_paused: Callable[[NodeName], bool] = lambda _: False,
        told: Callable[[NodeName, str], object] = lambda *_: None,
        is_large: bool = False,
    ) -> None:
        """`peers_of`: who seems alive to a node (else everybody who runs and is reached); `told` is given what happens
        to a node, in words. In a large fleet items do not become bytes on their way."""
        self.sites: Final = dict[NodeName, Site]()
        self.items = 0
        """How many were said on edges."""
        self._agenda: Final = agenda
        self._network: Final = network
        self._rng: Final = Random(f"forest {seed}")
        self._fanout: Final = fanout
        self._announce_ms: Final = announce_ms
        self._peers_of: Final = peers_of or self._reached
        self._is_paused: Final = is_paused
        self._told: Final = told
        self._is_large: Final = is_large
        self._starts = 0
        self._everybody: dict[NodeName, TreePeer] = {}
        """All that seem alive, as they are to who reaches all of them."""
        self._everybody_ms = -LOOK_MS

    # -- what happens

    def start(self, name: NodeName, addr: str = "") -> None:
        """A node begins to serve."""
        self._starts += 1
        settings = TreeSettings(name, addr or f"{name}:1", self._fanout, self._announce_ms)
        tree = ServerTree(settings, Random(self._rng.random()), lambda origin: origin in self.sites)
        site = self.sites[name] = Site(name, tree)
        tree.see(self._peers_of(name))
        tree.begin(self._now_ms, self._starts)
        self._carry_out(site)
        self._look(site)

    def stop(self, name: NodeName) -> None:
        """Its process ends; whoever is connected is told, if the way is open."""
        site = self.sites[name]
        site.is_running, site.ended_ms = False, self._now_ms
        for connection in list(site.connections.values()):
            self._shut(connection, connection.end_of(site))

    def say(self, name: NodeName, text: str) -> None:
        """A node says something to all."""
        site = self.sites[name]
        site.tree.give("say", text.encode(), self._now_ms)
        self._carry_out(site)

    def is_running(self, name: NodeName) -> bool:
        """Whether a node takes part."""
        return name in self.sites and self.sites[name].is_running

    def roots(self) -> list[NodeName]:
        """All that are one."""
        return [site.name for site in self.running() if site.tree.phase is TreePhase.ROOT]

    def running(self) -> list[Site]:
        return [site for site in self.sites.values() if site.is_running]

    def lines(self) -> Iterator[str]:
        """Where each node stands, and whom it hears, in words."""
        for site in sorted(self.running(), key=lambda site: site.name):
            tree = site.tree
            where = " below ".join(tree.path) if tree.path else f"{site.name} {tree.phase}"
            yield f"tree: {where}; hears {' '.join(sorted(tree.announced)) or 'nobody'}"

    # -- one site

    @property
    def _now_ms(self) -> int:
        return self._agenda.now_ms

    def _reached(self, name: NodeName) -> dict[NodeName, TreePeer]:
        """Everybody who was there lately; some have just gone, which shows on the connection to them only."""
        if self._now_ms - self._everybody_ms >= LOOK_MS:
            self._everybody_ms = self._now_ms
            self._everybody = {
                other.name: TreePeer(f"{other.name}:1", 1.0 if other.is_running else None)
                for other in self.sites.values()
                if other.is_running or self._now_ms - other.ended_ms < ALIVE_MS
            }
        found = self._everybody.copy()
        found.pop(name, None)
        if self._network.cut:
            for other, peer in found.items():
                if peer.rtt_ms is not None and not self._network.connects(name, other):
                    found[other] = attrs.evolve(peer, rtt_ms=None)
        return found

    def _look(self, site: Site) -> None:
        if not site.is_running:
            return
        if not self._is_paused(site.name):
            site.tree.see(self._peers_of(site.name))
            self._wake(site)
        self._agenda.later(LOOK_MS, partial(self._look, site))

    def _wake(self, site: Site) -> None:
        site.tree.woken(self._now_ms)
        self._carry_out(site)

    def _carry_out(self, site: Site) -> None:
        for effect in site.tree.take():
            match effect:
                case Dial(edge=edge, name=name):
                    self._dial(site, edge, name)
                case Say(edge=edge, item=item):
                    if edge in site.connections:
                        self._send(site, edge, item)
                case Close(edge=edge):
                    connection = site.connections.get(edge)
                    if connection is not None:
                        self._shut(connection, connection.end_of(site))
                case Deliver(frame=frame):
                    site.heard.append(frame)
                    self._told(site.name, f"gets from {frame.origin}: {frame.body.decode()}")
                case _:
                    assert_never(effect)
        self._tell(site)
        wake_ms = site.tree.wake_ms()
        if wake_ms is not None and wake_ms != site.wake_at_ms:
            site.wake_at_ms = wake_ms
            self._agenda.at(wake_ms, partial(self._wake_at, site, wake_ms))

    def _wake_at(self, site: Site, at_ms: int) -> None:
        if site.wake_at_ms == at_ms and site.is_running and not self._is_paused(site.name):
            site.wake_at_ms = None
            self._wake(site)

    def _tell(self, site: Site) -> None:
        """Say another phase in words."""
        tree = site.tree
        now = tree.phase, tree.parent
        if now == site.phase:
            return
        site.phase = now
        match tree.phase:
            case TreePhase.ROOT:
                self._told(site.name, "is a root")
            case TreePhase.ATTACHED:
                self._told(site.name, f"has the parent {tree.parent}, level {tree.level}")
            case TreePhase.LOOKING:
                self._told(site.name, "looks for a parent")
            case TreePhase.PENDING:
                self._told(site.name, "takes no children")
            case TreePhase.OUT:
                pass
            case _:
                assert_never(tree.phase)

    # -- between two

    def _dial(self, site: Site, edge: int, name: NodeName) -> None:
        connection = TreeConnection(ConnectionEnd(site, edge), ConnectionEnd(self.sites[name], 0))
        connection.child.heard_ms = self._now_ms
        site.connections[edge] = connection
        self._agenda.later(self._way_ms(connection), partial(self._arrive, connection))

    def _arrive(self, connection: TreeConnection) -> None:
        """The question is there, if anybody is."""
        child, host = connection.child, connection.parent.site
        if not child.is_open or not self._passes(connection):
            return  # to the one who asked it is silence
        if not host.is_running or self.sites[host.name] is not host:
            self._shut(connection, connection.parent)
        elif self._is_paused(host.name):
            self._agenda.later(BLOCKED_MS, partial(self._arrive, connection))
        else:
            connection.parent.heard_ms = self._now_ms
            connection.parent.edge = host.tree.asked(child.site.name, self._now_ms)
            host.connections[connection.parent.edge] = connection
            self._carry_out(host)
            self._agenda.later(LOOK_MS, partial(self._watch, connection, connection.child))
            self._agenda.later(LOOK_MS, partial(self._watch, connection, connection.parent))

    def _send(self, site: Site, edge: int, item: EdgeItem) -> None:
        connection = site.connections[edge]
        to = connection.other(connection.end_of(site))
        to.coming.append(item if self._is_large else read_edge(read_map(unpack(pack(edge_fields(item))), "item")))
        self.items += 1
        to.arrives_ms = max(to.arrives_ms, self._now_ms + self._way_ms(connection))
        self._agenda.at(to.arrives_ms, partial(self._deliver, connection, to))

    def _deliver(self, connection: TreeConnection, to: ConnectionEnd) -> None:
        site = to.site
        if not to.is_open or not to.coming or not site.is_running:
            return
        if not self._passes(connection) or self._is_paused(site.name):
            self._agenda.later(BLOCKED_MS, partial(self._deliver, connection, to))
            return
        to.heard_ms = self._now_ms
        site.tree.told(to.edge, to.coming.popleft(), self._now_ms)
        self._carry_out(site)

    def _shut(self, connection: TreeConnection, end: ConnectionEnd) -> None:
        """One side closes; the other one notices when all that was said before has arrived."""
        end.is_open = False
        end.site.connections.pop(end.edge, None)
        self._agenda.at(max(connection.other(end).arrives_ms, self._now_ms + 1), partial(self._notice, connection, end))

    def _notice(self, connection: TreeConnection, closed: ConnectionEnd) -> None:
        end = connection.other(closed)
        site = end.site
        if not end.is_open or not site.is_running:
            return
        if not self._passes(connection) or self._is_paused(site.name) or end.coming:
            self._agenda.later(BLOCKED_MS, partial(self._notice, connection, closed))
            return
        self._end(end)

    def _end(self, end: ConnectionEnd) -> None:
        end.is_open = False
        if end.site.connections.pop(end.edge, None) is not None:
            end.site.tree.ended(end.edge, self._now_ms)
            self._carry_out(end.site)

    def _watch(self, connection: TreeConnection, end: ConnectionEnd) -> None:
        """Signs of life come each second from an end that runs and is reached."""
        site, there = end.site, connection.other(end)
        if not end.is_open or not site.is_running:
            return
        if not self._is_paused(site.name):
            is_there = there.is_open and there.site.is_running and not self._is_paused(there.site.name)
            if is_there and self._passes(connection):
                end.heard_ms = self._now_ms
            elif self._now_ms - end.heard_ms >= SILENT_MS:
                self._end(end)
                return
        self._agenda.later(LOOK_MS, partial(self._watch, connection, end))

    def _passes(self, connection: TreeConnection) -> bool:
        return self._network.connects(connection.child.site.name, connection.parent.site.name)

    def _way_ms(self, connection: TreeConnection) -> int:
        return self._network.answer_ms(connection.child.site.name, connection.parent.site.name)
