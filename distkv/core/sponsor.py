"""Letting a joiner in: whether the name is free, which life it gets, and the head of what it downloads.

Knows: who asked for a name that is registered elsewhere, and whether the registered node was found at its address.
Does not know how the rest of a download is sent.

Invariant: a joiner is registered before the snapshot for it is taken, and never under the name of a node that answers
at its registered address (docs/protocol, REG-2, NAME-2).
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.node import Node, Turn
from distkv.core.ready import AskMaps, JoinerAsked
from distkv.errors import BusyError, ExistsError, NotReadyError, RequestError
from distkv.model.event import NodeName
from distkv.wire.message import SnapshotHead

CLOCK_AHEAD_S: Final = 86_400.0
"""A joiner whose clock is further ahead is refused: the life it would get could never be followed by another."""
LOOK_CLOCKS: Final = 3
"""How long it is remembered whether somebody was there."""
LOOKS_MAX: Final = 64


@attrs.define(slots=True)
class Look:
    """Whether a registered node is still at its address, when another one wants its name."""

    addr: str
    at_ms: int
    found: bool | None
    """None: the answer is not there yet."""


class Sponsor:
    """Sponsors joiners for one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._looks: dict[NodeName, Look] = {}

    def asked(self, what: JoinerAsked, turn: Turn) -> None:
        """Sponsor a joiner: its registry entry is written before the snapshot is taken."""
        node, name = self._node, what.node
        store, ready = node.store, turn.ready
        if not store.has_data or node.startup.hands_over:
            ready.reply = NotReadyError(f"{store.me} has no data itself; ask another node")
            return
        if not node.is_serving:  # others may have forgotten what is here, and would not know the joiner
            ready.reply = BusyError(f"{store.me} waits for {node.startup.waits_for} itself; ask again")
            return
        here = store.registry.nodes.get(name)
        look = None
        if here is not None and here.addr != what.addr and name != store.me:
            look = self._look(name, here.addr, turn)
            if look.found is None:
                ready.reply = BusyError(f"{store.me} asks whether the {name} at {here.addr} is there; ask again")
                return
        if name == store.me or (look is not None and look.found):
            ready.reply = ExistsError(
                f"a live node at {here.addr if here else node.settings.addr} is called {name}:"
                " give the new one a name of its own, or stop the other"
            )
            return
        node.check_life(turn)
        node.recovery.saw(name, what.addr, turn.now_ms)
        if what.created > turn.wall + CLOCK_AHEAD_S:
            ready.reply = RequestError(
                f"the clock of {name} is more than a day ahead of {store.me}'s: set it right, or its lives are used up"
            )
            return
        life = store.registry.next_life(name, what.created)
        node.own(store.register(name, life, what.addr, turn.wall), turn)
        tree = store.tree
        ticks, superseded = tree.ledger.ticks(), tree.superseded()
        ready.reply = SnapshotHead(node.header(), life, ticks, superseded, len(tree), is_stale=store.own.is_stale)

    def answered(self, name: NodeName, addr: str) -> None:
        """A node of this name answered at this address."""
        look = self._looks.get(name)
        if look is not None and look.addr == addr:
            look.found = True

    def silent(self, name: NodeName, addr: str) -> None:
        """A question to this address is over; when it was not answered, nobody of this name is there."""
        look = self._looks.get(name)
        if look is not None and look.found is None and look.addr == addr:
            look.found = False

    def _look(self, name: NodeName, addr: str, turn: Turn) -> Look:
        """Whether a node of this name is at an address. What is heard of the name may be the joiner's own."""
        node, look = self._node, self._looks.get(name)
        if look is None or look.addr != addr or turn.now_ms - look.at_ms > LOOK_CLOCKS * node.settings.clock_ms:
            if name not in self._looks and len(self._looks) >= LOOKS_MAX:
                self._looks.pop(next(iter(self._looks)))
            look = self._looks[name] = Look(addr, turn.now_ms, None if addr else False)
            if addr:
                node.ask(name, addr, AskMaps(), turn, is_witness=True)
        return look
