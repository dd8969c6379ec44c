"""What must wait waits, and what must not goes on: readiness, turns after a split, gaps.

Knows: when each process started, what it was told, and what it asked for, by its own clock.  Does not know why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from distkv.core.ready import Ask, AskEvents, HeardMessage, Input, PeerAnswered, PeerOffered, Ready, TransportUp
from distkv.model.state import State
from distkv.model.tick_ranges import TickRanges, common, overlap
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import Info, Message, PingChain, Record, TickMaps

GAP_MS: Final = 10_000
"""A gap that is there twice, so long apart, and for which nothing was asked meanwhile, is not pulled at all (GAP-1).
Twice this is longer than a link that is dialled and says nothing is waited for (`NetworkFaults.silence_ms`), which was
to bring what is missing, and then the turn of a pull (seed 1643)."""
ROUND_CLOCKS: Final = 3
"""No round is longer (PING-3): a clock in which all wait, one in which the chain's nodes send and half of one in which
nobody did, and half of one in which everybody does. That a ping got lost makes no difference: each node's round begins
with the ping that it follows itself, heard or sent."""
LOOK_MS: Final = 1000
"""A pause may be over before this looks again."""


@attrs.define
class _TimedStart:
    """One start of a process with data, until it is ready."""

    process: Process
    began_ms: int
    has_compared: bool = False
    awaited: TickRanges | None = None
    """What was missing when it had compared with somebody for the first time."""


class ReadyInTime(Observer):
    """A node with data compares with somebody, or listens for a clock, before it is ready (START-7 to START-9)."""

    rule = "ready is not too early"

    def __init__(self) -> None:
        self._starts: dict[str, _TimedStart] = {}

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        self._starts.pop(process.host.name, None)
        if process.replica.life is not None and process.host.is_ours:
            self._starts[process.host.name] = _TimedStart(process, _shown_ms(process))

    def delivered(self, host: Host, what: Input) -> None:
        start = self._starts.get(host.name)
        if start is not None and host.process is not None:  # the step may change what is held, by a registration
            start.has_compared |= _has_compared(host.process, what)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        start = self._starts.get(process.host.name) if self._starts else None
        if start is None:
            return
        if start.awaited is None and (start.has_compared or _has_compared(process, what)):
            start.awaited = process.replica.tree.ledger.missing(but_lost=True)
        if any(note.id == "ready" for note in ready.notes):
            del self._starts[process.host.name]
            if process.replica.state is not State.CUT_OFF:  # without a transport it serves what there is (START-9)
                self._check(process, start)

    def _check(self, process: Process, start: _TimedStart) -> None:
        replica, name = process.replica, process.host.name
        if start.awaited is None:
            waited_ms = _shown_ms(process) - start.began_ms
            if waited_ms < replica.settings.clock_ms and not replica.settings.alone:
                raise self.broken(f"{name} is ready {waited_ms} ms after its start, and compared with nobody")
            return
        if left := common(start.awaited, replica.tree.ledger.missing(but_lost=True)):
            raise self.broken(f"{name} is ready, and still misses {left}")


class TakesTurns(Observer):
    """After a split nobody takes over before the one whose turn it is had half a clock (REC-6)."""

    rule = "nodes speak in turn"

    def __init__(self) -> None:
        self._met: dict[str, tuple[Process, int]] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        is_told = isinstance(what, HeardMessage) and isinstance(what.message, Info) and what.message.reason is not None
        if not ready.notes and not is_told:
            return
        ids = [note.id for note in ready.notes]
        name, now_ms = process.host.name, _shown_ms(process)
        known, met_ms = self._met.get(name, (process, now_ms))
        if known is not process:
            known, met_ms = process, now_ms
        if "split_healed" in ids or is_told:
            self._met[name] = known, met_ms  # the oldest since it spoke: it may be the turn that this one gave
        if "split_took_over" in ids and now_ms - met_ms < process.replica.settings.clock_ms // 2:
            raise self.broken(f"{name} takes over {now_ms - met_ms} ms after it met the other side")
        if "split_took_over" in ids or "split_told" in ids:
            self._met.pop(name, None)


@attrs.define
class _Since:
    """Nothing was asked since then, by the process's own clock."""

    process: Process
    at_ms: int
    missing: TickRanges | None = None
    """What was missing when this was looked at before."""


class GapsArePulled(Observer):
    """Who misses something asks for it (GAP-1, GAP-2)."""

    rule = "gaps are pulled"

    def __init__(self) -> None:
        self._gaps: dict[str, _Since] = {}
        self._asked: dict[str, tuple[Process, int]] = {}
        """Who pulled last, and the number of the request."""

    def second(self, fleet: Observed) -> None:
        for host in fleet.running():
            process, name = host.process, host.name
            gap, replica = self._gaps.get(name), host.live
            asker, ask = self._asked.get(name, (None, 0))
            waits = host.is_paused or (asker is process and replica.asked_name(ask) is not None)
            if process is None or waits or replica.tree.ledger.is_whole or replica.life is None:
                self._gaps.pop(name, None)
            elif gap is None or gap.process is not process:
                self._gaps[name] = _Since(process, _shown_ms(process))
            elif _shown_ms(process) - gap.at_ms > GAP_MS:
                self._check(process, gap)

    def left(self, process: Process, message: Message | Ask) -> None:
        if isinstance(message, Ask) and isinstance(message.what, AskEvents):
            self._gaps.pop(process.host.name, None)
            self._asked[process.host.name] = process, message.id

    def delivered(self, host: Host, what: Input) -> None:
        if isinstance(what, PeerAnswered):
            self._gaps.pop(host.name, None)

    def _check(self, process: Process, gap: _Since) -> None:
        name, replica = process.host.name, process.replica
        missing = replica.tree.ledger.missing(but_lost=True)
        if overlap(gap.missing or {}, missing) and replica.peers(0):
            raise self.broken(f"{name} misses {missing} for {GAP_MS} ms and asks nobody")
        self._gaps[name] = _Since(process, _shown_ms(process), missing)


@attrs.define
class _Followed:
    """Which ping a node follows, and when, by its own clock."""

    process: Process
    life: int
    """After a download it begins anew."""
    chain: PingChain
    at_ms: int


class PingsCome(Observer):
    """Whoever has data and a transport follows another ping, heard or sent, after three clocks (PING-3, PING-12)."""

    rule = "pings come"

    def __init__(self) -> None:
        self._followed: dict[str, _Followed] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if isinstance(what, TransportUp):  # it forgot the chain, if there was one (PING-11)
            self._followed.pop(process.host.name, None)

    def second(self, fleet: Observed) -> None:
        for host in fleet.running():
            process, name = host.process, host.name
            if process is None or host.is_paused or not host.agent.is_up or process.replica.life is None:
                self._followed.pop(name, None)
                continue
            now = _Followed(process, process.replica.life, process.replica.ping_chain, _shown_ms(process))
            since = self._followed.setdefault(name, now)
            for_ms = now.at_ms - since.at_ms
            if since.process is not process or (since.life, since.chain) != (now.life, now.chain):
                self._followed[name] = now
            elif for_ms > ROUND_CLOCKS * process.replica.settings.clock_ms + LOOK_MS:
                raise self.broken(f"{name} has followed no other ping for {for_ms} ms")


def _shown_ms(process: Process) -> int:
    """What the process's own clock shows."""
    return process.host.clock.monotonic_ms(process.now_ms)


def _has_compared(process: Process, what: Input | None) -> bool:
    """Whether this brings the tick maps of another node of the same network, or says that they are the same."""
    maps = what.maps if isinstance(what, PeerOffered) else what.answer if isinstance(what, PeerAnswered) else None
    replica = process.replica
    if not isinstance(maps, TickMaps) or maps.ticks_hash not in (None, replica.tree.ledger.hash()):
        return False
    header = maps.header
    return header.node != replica.name and replica.network_id is not None and header.network == replica.network_id
