"""Letting a joiner in: whether the name is free, which life it gets, and the head of what it downloads.

Knows: who asked for a name that is registered elsewhere, and whether the registered node was found at its address.
Does not know how the rest of a download is sent.

Invariant: a joiner is registered before the snapshot for it is taken, and never under the name of a node that answers
at its registered address; one that says that it is itself there does not serve there (docs/protocol, REG-2, NAME-2).
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.asks import Why
from distkv.core.node import Node
from distkv.core.ready import Ask, AskMaps, JoinerAsked
from distkv.core.registry import Registration
from distkv.core.turn import Turn
from distkv.errors import BusyError, ExistsError, NotReadyError, RequestError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.message import SnapshotHead

CLOCK_AHEAD_S: Final = 86_400.0
"""A joiner whose clock is further ahead is refused: the life it would get could never be followed by another."""
LOOK_CLOCKS: Final = 3
"""How long it is remembered whether somebody was there. A silent host may take longer than that to find out."""
LOOKS_MAX: Final = 64


@attrs.define(slots=True)
class Look:
    """Whether a registered node is still at its address, when another one wants its name."""

    addr: str
    life: int
    """The registered life. A node that got a later life since may be there now."""
    asker_started: float
    """When the joiner's process started. Before a later start, somebody may have stopped the other node."""
    at_ms: int
    """When the answer came; until then, when it was asked."""
    found: bool | None
    """None: the answer is not there yet."""
    ask: int = 0
    """The number of the question."""
    is_serving: bool = False
    """Whether the node that was found is ready: then it needs no download."""


class Sponsor:
    """Sponsors joiners for one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._looks: dict[NodeName, Look] = {}

    def asked(self, what: JoinerAsked, turn: Turn) -> None:
        """Sponsor a joiner: its registry entry is written before the snapshot is taken."""
        node, store, name = self._node, self._node.store, what.node
        refused = self._refuse(what, turn)
        if refused is not None:
            turn.ready.reply = refused
            return
        node.begin_life_if_due(turn)
        life = node.lives.next_life(name, what.created)
        node.publish(store.register(name, life, what.addr, turn.wall), turn)
        node.recovery.saw(name, what.addr, turn.now_ms)
        tree = store.tree
        ticks, superseded = tree.ledger.ticks(), tree.superseded()
        turn.ready.reply = SnapshotHead(
            node.header(), life, ticks, superseded, len(tree), is_stale=store.own.is_stale
        )

    def answered(self, name: NodeName, ask: Ask, now_ms: int, *, is_serving: bool) -> None:
        """A node of this name, and with data, answered. What was asked before the look it may have answered before."""
        look = self._looks.get(name)
        if look is not None and look.addr == ask.addr and look.ask <= ask.id:
            look.found, look.is_serving, look.at_ms = True, is_serving, now_ms

    def silent(self, name: NodeName, ask: int, now_ms: int) -> None:
        """A question is over; when it was not answered, nobody of this name is there. An earlier one says nothing."""
        look = self._looks.get(name)
        if look is not None and look.found is None and look.ask == ask:
            look.found, look.at_ms = False, now_ms

    def _refuse(self, what: JoinerAsked, turn: Turn) -> RequestError | None:
        """Why a joiner is not sponsored, or not yet."""
        node, store, name = self._node, self._node.store, what.node
        if not store.has_data or node.startup.hands_over:
            return NotReadyError(f"{store.me} has no data itself; ask another node")
        if not node.is_serving:  # others may have forgotten what is here, and would not know the joiner
            return BusyError(f"{store.me} waits for {node.startup.waits_for} itself; ask again")
        here = store.registry.nodes.get(name)
        addr = here.addr if here is not None else node.settings.addr
        is_taken = name == store.me
        if here is not None and not is_taken:
            look = self._find_out(what, here, turn)
            if look.found is None:
                why = f"{store.me} first finds out whether the {name} at {addr} is still there"
                return BusyError(f"{why}, as whenever a node joins; it is asked again by itself")
            if addr != what.addr:
                is_taken = look.found
            elif look.is_serving:  # it does not ask; and if it does it has begun anew, and its next try will show that
                return BusyError(f"the {name} at {addr} is ready, and needs no download; ask again")
        if is_taken:
            return ExistsError(
                f"a live node at {addr} is called {name}: give the new one a name of its own, or stop the other"
            )
        if what.created > turn.wall + CLOCK_AHEAD_S:
            return RequestError(
                f"the clock of {name} is more than a day ahead of {store.me}'s: set it right, or its lives are used up"
            )
        return None

    def _find_out(self, what: JoinerAsked, here: Registration, turn: Turn) -> Look:
        """Whether a node of this name is where it is registered. What is heard of the name may be the joiner's own."""
        node, name, addr, life = self._node, what.node, here.addr, here.life
        look = self._looks.get(name)
        if look is not None:
            is_old = turn.now_ms - look.at_ms > LOOK_CLOCKS * node.settings.clock_ms
            is_of_earlier = look.asker_started < what.created
            is_over = look.found is not None  # a question that is under way ends, and a second one would end later
            if (is_over and (is_old or is_of_earlier)) or (look.addr, look.life) != (addr, life):
                look = None
        if look is None:
            if name not in self._looks and len(self._looks) >= LOOKS_MAX:
                known = next((name for name, other in self._looks.items() if other.found is not None), None)
                if known is None:
                    return Look(addr, life, what.created, turn.now_ms, None)  # so many are being asked: this one later
                del self._looks[known]
            look = self._looks[name] = Look(addr, life, what.created, turn.now_ms, None if addr else False)
            if addr:
                look.ask = node.ask(name, addr, AskMaps(), Why.PRESENCE, turn)
        return look

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._looks) <= LOOKS_MAX, "few looks are kept")
        for name, look in self._looks.items():
            is_asked = self._node.asks.get(look.ask) is not None
            must(look.found is not None or is_asked, f"{name} is asked until it is known whether it is there")
            must(look.found or not look.is_serving, f"who is not there does not serve, such as {name}")
