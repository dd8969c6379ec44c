"""Who is probed, when, and what it means that nobody answers.

Knows: the round, the pings that wait for an answer, and through whom they are asked again.  Does not know what is
believed of those who do not answer.

Invariant: each node that lives is probed once in a round, in an order by chance. A ping that waits is answered, or
becomes due; what was asked before this node was away means nothing (docs/protocol, SWIM-21, SWIM-22).
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from heapq import heappop, heappush
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.inputs import SwimRng
from distkv.swim.members import MemberEntry
from distkv.swim.node import SwimNode
from distkv.swim.turn import SwimTurn
from distkv.wire.swim_frames import PingFrame
from distkv.wire.swim_records import Address, MemberState, NodeId, Payload, Rumour

RELAYS: Final = 3
"""So many others are asked to ask."""
TIMEOUT_PERCENT: Final = 60
"""Of an interval: so long a direct answer may take."""


class Purpose(Enum):
    """Why somebody is probed."""

    ROUND = auto()
    SUSPECT = auto()
    """To hear early whether it is there."""
    HOLDER = auto()
    """Another one would have its name."""
    NAMESAKE = auto()
    PULL = auto()
    """For the next page of its table."""


@attrs.define(slots=True, eq=False)
class OpenProbe:
    """A ping that waits for its answer."""

    purpose: Purpose
    target: NodeId
    address: Address
    end_ms: int
    relays: int = 0
    """So many were asked to ask."""
    nacks: int = 0
    """So many said that they had no answer."""


class Prober:
    """The probes of one node."""

    def __init__(self, node: SwimNode) -> None:
        self._node = node
        self._order = list[str]()
        """Those who follow in this round, the next one last."""
        self._first = dict[str, None]()
        """Those who come before them."""
        self._open = dict[int, OpenProbe]()
        self._due = list[tuple[int, int, bool]]()
        """A heap: when, which ping, and whether it is then to be relayed."""
        self._seq = node.rng.getrandbits(32)
        self._next_ms = int(node.rng.random() * node.settings.interval_ms)

    def begin(self, now_ms: int) -> None:
        """The first round begins within an interval."""
        self._next_ms += now_ms

    def wake_ms(self) -> int:
        return min(self._next_ms, self._due[0][0]) if self._due else self._next_ms

    def found(self, name: str) -> None:
        """It lives, and comes somewhere in this round."""
        self._order.insert(int(self._node.rng.random() * (len(self._order) + 1)), name)

    def hurry(self, name: str) -> None:
        """It is the next one."""
        self._first[name] = None

    def overdue(self, turn: SwimTurn) -> list[OpenProbe]:
        """Pings that nobody answered; of those that wait still, some are relayed."""
        failed = []
        while self._due and self._due[0][0] <= turn.now_ms:
            _, seq, is_to_relay = heappop(self._due)
            probe = self._open.get(seq)
            if probe is None:
                continue
            if is_to_relay:
                self._relay(seq, probe, turn)
            else:
                failed.append(self._fail(seq, probe))
        return failed

    def next_target(self, now_ms: int) -> MemberEntry | None:
        """Who is to be probed now, if it is time."""
        if now_ms < self._next_ms:
            return None
        self._next_ms = now_ms + self._node.interval_ms()
        for name in self._node.blocked:
            entry = self._node.table.entries.get(name)
            if entry is not None and not entry.has_fresh_link(now_ms):
                self.hurry(name)
        return self._next()

    def ping(self, purpose: Purpose, target: MemberEntry, turn: SwimTurn, *, page: int | None = None) -> int:
        """Ask a member; the number of the ping."""
        first = [target.as_rumour()] if target.state is MemberState.SUSPECT else []
        return self.ask(purpose, target.id, target.address, target.record.start, turn, first=first, page=page)

    def ask(
        self, purpose: Purpose, target: NodeId, address: Address, start: bytes | None, turn: SwimTurn, *,
        first: list[Rumour] | None = None, page: int | None = None,
    ) -> int:  # fmt: skip
        """Ask whoever is at an address."""
        node, self._seq = self._node, (self._seq + 1) & 0xFFFFFFFF
        interval_ms = node.interval_ms()
        end_ms = turn.now_ms + interval_ms
        self._open[self._seq] = OpenProbe(purpose, target, address, end_ms)
        heappush(self._due, (end_ms, self._seq, False))
        if purpose in (Purpose.ROUND, Purpose.SUSPECT, Purpose.HOLDER):
            heappush(self._due, (turn.now_ms + interval_ms * TIMEOUT_PERCENT // 100, self._seq, True))
        carrier = partial(PingFrame, node.own.id, target, self._seq, 0)
        node.send(address, start, node.compose(carrier, turn.now_ms, first or [], page=page), turn)
        return self._seq

    def answered(self, seq: int, who: str) -> OpenProbe | None:
        """An answer came; to which ping, if one waits for it."""
        probe = self._open.get(seq)
        if probe is None or probe.target.node != who:
            return None
        del self._open[seq]
        while self._due and self._due[0][1] not in self._open:
            heappop(self._due)
        if probe.purpose is Purpose.ROUND:
            self._node.health.improve()
            self._node.blocked.discard(who)
        return probe

    def refused(self, seq: int) -> None:
        """A relay hears nothing from the target either."""
        probe = self._open.get(seq)
        if probe is not None and probe.nacks < probe.relays:
            probe.nacks += 1

    def forget_open(self, now_ms: int) -> None:
        """This node was away: it could not hear answers."""
        self._open.clear()
        self._due.clear()
        self._next_ms = min(self._next_ms, now_ms)

    def check(self) -> None:
        ends = {seq for _, seq, is_to_relay in self._due if not is_to_relay}
        must(self._open.keys() <= ends, "each ping that waits becomes due")
        must(all(probe.nacks <= probe.relays for probe in self._open.values()), "only relays say that nobody answers")

    def _next(self) -> MemberEntry | None:
        table = self._node.table
        while self._first:
            name = next(iter(self._first))
            del self._first[name]
            if (entry := table.entries.get(name)) is not None and entry.is_live:
                return entry
        for _ in range(2):
            while self._order:
                entry = table.entries.get(self._order.pop())
                if entry is not None and entry.is_live:
                    return entry
            self._order = _shuffled(table.live, self._node.rng)
        return None

    def _relay(self, seq: int, probe: OpenProbe, turn: SwimTurn) -> None:
        node = self._node
        some = node.table.some_live(2 * RELAYS, node.rng, probe.target.node)
        relays = [one for one in some if one.state is MemberState.ALIVE][:RELAYS]
        probe.relays = len(relays)
        ping = PingFrame(node.own.id, probe.target, seq, 1, Payload())
        for relay in relays:
            node.send(relay.address, relay.record.start, ping, turn)

    def _fail(self, seq: int, probe: OpenProbe) -> OpenProbe:
        del self._open[seq]
        if probe.purpose is Purpose.ROUND:
            if 2 * probe.nacks <= probe.relays:  # one or the other relay may be dead, too
                self._node.health.worsen()
        return probe


def _shuffled(names: list[str], rng: SwimRng) -> list[str]:
    found = list(names)
    for place in range(len(found) - 1, 0, -1):
        other = int(rng.random() * (place + 1))
        found[place], found[other] = found[other], found[place]
    return found
