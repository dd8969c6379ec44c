"""Asks other nodes how far they are with origins of which a client that logs in has more than this node.

Knows: which nodes are asked when.  Does not know clients, nor how what is missing is fetched (`holes`).

What a client says is not believed: it may name numbers that there never were, and all that is later would wait for
them. What a node says is.

Invariant: at most `NODES_MAX` nodes are asked about at most `NAMES_MAX` origins in `ROUND_MS`, however many clients
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import attrs

from distkv.core.activity.other_listeners import OtherListeners
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.activity_bodies import ASKED_MAX, ORIGIN_ANSWERS, OriginsAsked, is_origin_name
from distkv.wire.declared import pack

NAMES_MAX: Final = ASKED_MAX
NODES_MAX: Final = 8
ROUND_MS: Final = 500


@attrs.frozen(slots=True)
class AheadPurpose:
    """Why a node was asked."""

    node: NodeName


class Ahead:
    """That of one node."""

    def __init__(self, others: OtherListeners) -> None:
        self._others: Final = others
        self._asked: Final = dict[NodeName, None]()
        """Whose answer is waited for."""
        self._last: Final = dict[NodeName, None]()
        """Who was asked; first whose turn is longest ago."""
        self._next_ms = 0

    def look(self, turn: ServiceTurn, take_lacking: Callable[[int], Sequence[str]]) -> None:
        """Ask about origins that clients lack, so many at most."""
        now_ms = turn.boot_ms
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + ROUND_MS
        names = [name for name in take_lacking(NAMES_MAX) if is_origin_name(name)]
        for node in self._chosen(names):
            self._asked[node] = None
            self._last.pop(node, None)
            self._last[node] = None
            turn.ask_node(node, pack(OriginsAsked(tuple(names))), AheadPurpose(node), patience_ms=ROUND_MS, waits=False)

    def replied(self, purpose: AheadPurpose, reply: object) -> dict[str, int]:
        """A node answered, or did not; how far it is."""
        self._asked.pop(purpose.node, None)
        try:
            return dict(ORIGIN_ANSWERS.read(reply).numbers) if isinstance(reply, bytes) else {}
        except DecodeError:
            return {}

    @property
    def wake_ms(self) -> int:
        """When `look` has something to do, if anybody waits."""
        return self._next_ms

    def _chosen(self, names: Sequence[str]) -> list[NodeName]:
        """The origins' own nodes first, then the others in turn."""
        reachable = [node for node in self._others.reachable if node not in self._asked] if names else []
        own = {name.rpartition(".")[0] for name in names}
        for gone in [node for node in self._last if node not in self._others.reachable]:
            del self._last[gone]
        turns = {node: turn for turn, node in enumerate(self._last)}
        order = sorted(reachable, key=lambda node: (node not in own, turns.get(node, -1)))
        return [*islice(order, NODES_MAX)]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._asked) <= NODES_MAX * 2, "few nodes are asked at once")
