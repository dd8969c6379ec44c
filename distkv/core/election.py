"""Who sends the next ping, and which ping is the basis of the round after it.

Knows: the ping chain, the positions in it, and the time within a round.  Does not know what else a ping carries, the
tree, or other nodes' addresses.

Invariant: at least one ping in every 3 x clock in every partition with a live node that has data; after a heal one
chain is left, because the order of pings is total.  The machine is the table `TRANSITIONS`.
Source: docs/protocol, 'Ping election'.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.core.turns import delay_band, order_of
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.message import PingChain, PingLink


class ElectionPhase(StrEnum):
    """Where in a round a node is."""

    ASLEEP = "asleep"
    """Takes no part: no data, or nobody to talk to."""
    WAITING = "waiting"
    """The first clock interval after a ping."""
    THINKING = "thinking"
    """The second interval: each may send, by its position in the chain."""
    OVERDUE = "overdue"
    """Nobody did: everybody sends at some moment of the next half interval."""


class ElectionCause(StrEnum):
    """What moves the machine."""

    WOKEN = "woken"
    PUT_TO_SLEEP = "put to sleep"
    BASIS_CHANGED = "basis changed"
    INTERVAL_OVER = "interval over"


TRANSITIONS: Final[dict[tuple[ElectionPhase, ElectionCause], ElectionPhase]] = {
    (ElectionPhase.ASLEEP, ElectionCause.WOKEN): ElectionPhase.WAITING,
    (ElectionPhase.WAITING, ElectionCause.INTERVAL_OVER): ElectionPhase.THINKING,
    (ElectionPhase.WAITING, ElectionCause.BASIS_CHANGED): ElectionPhase.WAITING,
    (ElectionPhase.WAITING, ElectionCause.PUT_TO_SLEEP): ElectionPhase.ASLEEP,
    (ElectionPhase.THINKING, ElectionCause.INTERVAL_OVER): ElectionPhase.OVERDUE,
    (ElectionPhase.THINKING, ElectionCause.BASIS_CHANGED): ElectionPhase.WAITING,
    (ElectionPhase.THINKING, ElectionCause.PUT_TO_SLEEP): ElectionPhase.ASLEEP,
    (ElectionPhase.OVERDUE, ElectionCause.BASIS_CHANGED): ElectionPhase.WAITING,
    (ElectionPhase.OVERDUE, ElectionCause.PUT_TO_SLEEP): ElectionPhase.ASLEEP,
}
"""(phase, cause) -> next phase. What is not listed does not happen, or changes nothing."""

LENGTH_IN_CLOCKS: Final = {ElectionPhase.WAITING: 1.0, ElectionPhase.THINKING: 1.5, ElectionPhase.OVERDUE: 0.5}
"""How long a phase lasts at the most. One clock of thinking, and half of one in which nothing came."""


class PingVerdict(StrEnum):
    """What a ping that arrived means."""

    FOLLOWS = "follows"
    """It builds on the chain we know and orders higher: the new basis."""
    LOSES = "loses"
    """It collides with the basis, or is older, and orders lower: no effect."""
    REPEATED = "repeated"
    """It was heard before."""
    FIRST = "first"
    """We had no basis."""
    SPLIT_WON = "split, it wins"
    """Its chain and ours have no link in common: a split is over, and its chain is the real one."""
    SPLIT_LOST = "split, ours wins"


MEMORY_LINKS: Final = 64
"""How many links of earlier chains are remembered, to know an old ping from a foreign one."""


@attrs.define(slots=True)
class Election:
    """The machine. All times are monotonic milliseconds."""

    me: NodeName
    clock_ms: int
    length: int
    rng: Rng
    phase: ElectionPhase = ElectionPhase.ASLEEP
    basis: PingChain = ()
    _until_ms: int = 0
    _send_ms: int | None = None
    _seen: deque[tuple[NodeName, int]] = attrs.field(factory=lambda: deque(maxlen=MEMORY_LINKS))

    # -- inputs

    def wake(self, now_ms: int) -> None:
        """Take part from now on."""
        self._move(ElectionCause.WOKEN, now_ms)

    def sleep(self, now_ms: int) -> None:
        """Take no part, and forget the chain: what was said meanwhile is not known."""
        self._move(ElectionCause.PUT_TO_SLEEP, now_ms)
        self.basis = ()

    def heard(self, chain: PingChain, now_ms: int) -> PingVerdict:
        """A ping of another node with data arrived; its first link is the sender's."""
        verdict = self._judge(chain)
        if verdict in (PingVerdict.FOLLOWS, PingVerdict.FIRST, PingVerdict.SPLIT_WON):
            self._adopt(chain, now_ms)
        elif verdict is not PingVerdict.REPEATED:
            self._seen.append((chain[0].node, chain[0].tock))
        return verdict

    def sent(self, chain: PingChain, now_ms: int) -> None:
        """Our own ping is the basis now."""
        self._adopt(chain, now_ms)

    def advance(self, now_ms: int, node_count: int) -> bool:
        """Move through the phases up to `now_ms`; True when a ping is to be sent at this moment.

        The caller sends it and says `sent`.  `node_count`: how many nodes are known, ourselves included.
        """
        while self.phase is not ElectionPhase.ASLEEP:
            if self._send_ms is not None and now_ms >= self._send_ms:
                self._send_ms = None
                return True
            if now_ms < self._until_ms:
                return False
            began_ms = self._until_ms
            if (self.phase, ElectionCause.INTERVAL_OVER) not in TRANSITIONS:
                return True  # overdue, and our own moment was lost to a pause of the whole process
            self._move(ElectionCause.INTERVAL_OVER, began_ms)
            self._send_ms = self._choose_moment(began_ms, node_count)
        return False

    # -- outputs

    def wake_ms(self) -> int | None:
        """When `advance` wants to be asked again."""
        if self.phase is ElectionPhase.ASLEEP:
            return None
        return self._until_ms if self._send_ms is None else min(self._until_ms, self._send_ms)

    def next_chain(self, link: PingLink) -> PingChain:
        """The chain of our next ping."""
        return (link, *self.basis)[: self.length]

    def position(self, name: NodeName) -> int | None:
        """The place of a node among the distinct nodes of the chain, 0 for the latest sender; None when off it."""
        order = order_of(self.basis)
        return order.index(name) if name in order else None

    def is_foreign(self, chain: PingChain) -> bool:
        """Whether a chain has no link in common with what we follow or remember: that of another side."""
        return bool(self.basis) and not self._is_compatible(chain)

    # -- inside

    def _choose_moment(self, began_ms: int, node_count: int) -> int | None:
        """When to send within the phase that began, if at all ('Ping sequence', delays by position)."""
        draw = self.rng.random()
        if self.phase is ElectionPhase.OVERDUE:
            return began_ms + int(draw * self.clock_ms * LENGTH_IN_CLOCKS[ElectionPhase.OVERDUE])
        order = order_of(self.basis)
        if self.me not in order:
            chance = 1 / (10 * max(node_count, 1))
            return began_ms if draw < chance else None
        low, high = delay_band(order.index(self.me), len(order))
        return began_ms + int((low + draw * (high - low)) * self.clock_ms)

    def _judge(self, chain: PingChain) -> PingVerdict:
        head = chain[0]
        if (head.node, head.tock) in self._seen:
            return PingVerdict.REPEATED
        if not self.basis:
            return PingVerdict.FIRST
        wins = rank(head) > rank(self.basis[0])
        if self._is_compatible(chain):
            return PingVerdict.FOLLOWS if wins else PingVerdict.LOSES
        if head.tock < self.basis[-1].tock:
            return PingVerdict.LOSES  # merely older than all we remember; digests tell if there is more to it
        return PingVerdict.SPLIT_WON if wins else PingVerdict.SPLIT_LOST

    def _is_compatible(self, chain: PingChain) -> bool:
        """A link in common with what we know, or two first pings that collide."""
        if len(chain) == 1 and len(self.basis) == 1:
            return True
        known = {(link.node, link.tock) for link in self.basis}.union(self._seen)
        return any((link.node, link.tock) in known for link in chain)

    def _adopt(self, chain: PingChain, now_ms: int) -> None:
        self.basis = chain
        known = set(self._seen)
        self._seen.extend(
            (link.node, link.tock) for link in reversed(chain) if (link.node, link.tock) not in known
        )
        self._move(ElectionCause.BASIS_CHANGED, now_ms)

    def _move(self, cause: ElectionCause, now_ms: int) -> None:
        after = TRANSITIONS.get((self.phase, cause))
        if after is None:
            return
        self.phase = after
        self._send_ms = None
        self._until_ms = now_ms + int(self.clock_ms * LENGTH_IN_CLOCKS.get(after, 0))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        is_asleep = self.phase is ElectionPhase.ASLEEP
        must(not is_asleep or not self.basis, "who takes no part follows no chain")
        must(not is_asleep or self._send_ms is None, "who takes no part sends nothing")
        must(self._send_ms is None or self._send_ms <= self._until_ms, "a ping leaves in its phase")


def rank(link: PingLink) -> tuple[int, int, tuple[int, ...]]:
    """Of two colliding pings the higher rank wins: tock, tick, then the alphabetically lower name."""
    return (link.tock, link.tick or 0, (*(255 - b for b in link.node.encode()), 256))


def has_data(chain: PingChain) -> bool:
    """Whether a chain is authoritative: some node in it has written or downloaded something."""
    return any(link.tick for link in chain)
