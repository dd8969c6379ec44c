"""A node's part in the server tree: when it takes part, and what its machine may look up.

Knows: when the node serves clients, who is registered and seems alive, and to whom there is a connection.  Does not
know how a parent is chosen (`server_tree`).

Invariant: the store never depends on it. When the machine fails, nothing of that step leaves, its edges end, and the
node goes on without a tree until its next start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from distkv.core.edges import (
    Close,
    EdgeAsked,
    FieldsChanged,
    FieldsGiven,
    FramesGiven,
    HeardByTree,
    NodeMeasured,
    Say,
    TreeInput,
    TreeTurn,
)
from distkv.core.ground.contained import fault_of
from distkv.core.node import Node
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.parents import TreePeer
from distkv.core.server_tree.settings import TreeGround
from distkv.core.turn import Turn
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.announcing import Announcement
from distkv.wire.edges import FrameNumbers, ParentRefusal

MakeTree: TypeAlias = Callable[[TreeGround], ServerTree]


class TreePart:
    """That of one node."""

    def __init__(self, node: Node, make: MakeTree | None) -> None:
        """`make`: its machine; None: the node takes no part."""
        self._node: Final = node
        self.tree = None if make is None else make(self)
        """None: the node takes no part, or its machine failed."""
        self.has_failed = False
        self._has_begun = False
        self._wake_ms: int | None = None
        """Kept, because it is asked for after every step of the node."""
        self._rtt_ms: Mapping[NodeName, float] = {}
        self.heard: Final = list[HeardByTree]()
        """What is for services; whoever takes it empties it."""
        self.given: Final = list[FramesGiven | FieldsGiven]()
        """What services want said, since it was said last."""

    # -- what services say and hear

    def say(self, service: str, body: bytes) -> None:
        """Tell a service of all other nodes something."""
        last = self.given[-1] if self.given else None
        if isinstance(last, FramesGiven) and last.service == service:
            last.bodies.append(body)
        else:
            self.given.append(FramesGiven(service, [body]))

    def announce(self, service: str, fields: Mapping[str, object] | None) -> None:
        """Announce this of a service from now on."""
        self.given.append(FieldsGiven(service, fields))

    @property
    def neighbours(self) -> tuple[NodeName, ...]:
        """Those in the tree, the parent first."""
        tree = self.tree
        if tree is None:
            return ()
        return tuple(tree.children) if tree.parent is None else (tree.parent, *tree.children)

    @property
    def announced(self) -> Mapping[NodeName, Announcement]:
        """What each node in the tree said last of itself."""
        return {} if self.tree is None else self.tree.announced

    def announced_ms(self, name: NodeName) -> int | None:
        """When a node did that last, by the monotonic clock; None: not lately."""
        return None if self.tree is None else self.tree.broadcast.voices.heard_ms(name)

    def frames(self, service: str) -> FrameNumbers:
        """Of each origin the last frame of a service that came, or is gone."""
        return {} if self.tree is None else self.tree.broadcast.have(service)

    # -- inputs

    def take(self, what: TreeInput, turn: Turn) -> None:
        """An input for the machine."""
        tree = self.tree
        if isinstance(what, NodeMeasured):
            self._rtt_ms = what.rtt_ms
        if tree is not None:
            self._do(turn, lambda inner: tree.step(inner, what))
        elif isinstance(what, EdgeAsked):
            turn.ready.edges += [Say(what.edge, ParentRefusal("out")), Close(what.edge)]

    def give(self, turn: Turn) -> None:
        """What services want said is said."""
        given = [*self.given]
        self.given.clear()
        for what in given:
            self.take(what, turn)

    def do_what_is_due(self, turn: Turn) -> None:
        """Begin as soon as clients are served; then what time has made due."""
        tree, node = self.tree, self._node
        if tree is None:
            return
        if not self._has_begun and node.is_serving:
            self._has_begun = True
            self._do(turn, lambda inner: tree.begin(inner, round(node.settings.start.time * 1000)))
        if self._wake_ms is not None and self._wake_ms <= turn.now_ms:
            self._do(turn, lambda inner: tree.step(inner, None))

    def wake_ms(self) -> int | None:
        """When a step is wanted, if nothing happens before."""
        return self._wake_ms

    # -- what the machine looks up

    def is_registered(self, name: NodeName, life: int | None = None) -> bool:
        """Whether a node belongs to the network, in this life."""
        registered = self._node.store.registry.nodes.get(name)
        return registered is not None and life in (None, registered.life)

    def peers(self, now_ms: int) -> dict[NodeName, TreePeer]:
        """The other registered nodes that seem alive, and how far away each one is that this node follows."""
        node, found = self._node, dict[NodeName, TreePeer]()
        parents = node.following.parents
        for name, peer in node.recovery.peers.items():
            is_other = name != node.store.me and name in node.store.registry.nodes
            if is_other and peer.addr and node.recovery.is_alive(name, now_ms):
                is_up = name in parents and parents[name].is_up
                found[name] = TreePeer(peer.addr, self._rtt_ms.get(name, 0.0) if is_up else None)
        return found

    def check(self, *, is_whole: bool) -> None:
        """For tests; raises BrokenInvariantError when what is promised here or by the machine does not hold.
        `is_whole`: look at all frames that are kept, too."""
        if self.tree is not None:
            self.tree.check()
        if self.tree is not None and is_whole:
            self.tree.broadcast.check()
        must(self._wake_ms == (None if self.tree is None else self.tree.wake_ms()), "it is known when a step is wanted")

    # -- inside

    def _do(self, turn: Turn, do: Callable[[TreeTurn], object]) -> None:
        tree, inner = self.tree, TreeTurn(turn.now_ms)
        if tree is None:
            return
        fault = fault_of(self._step, tree, do, inner)
        if fault is None:
            turn.ready.edges += inner.effects
            self.heard.extend(inner.heard)
        else:
            announced = tree.announced.items()
            self.heard.extend(FieldsChanged(name, service) for name, what in announced for service in what.services)
            self.tree, self.has_failed, self._wake_ms = None, True, None
            fault.note(turn, "tree_failed")
            turn.ready.edges += map(Close, tree.edges)

    def _step(self, tree: ServerTree, do: Callable[[TreeTurn], object], inner: TreeTurn) -> None:
        do(inner)
        self._wake_ms = tree.wake_ms()
