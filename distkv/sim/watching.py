"""Slow watchers: clients that watch a part of the tree, take what they are told at their own pace, pause, lose their
connection and go on with their token, on the same node or on another one.

Knows: how slow they are, and what they wait for.  Does not know what they believe (`belief`), nor who is told what.
Real are the order of what one is told (`services.telling`), its bytes, and what a client makes of them
(`client.watch`); not real is the stream between them.

Invariant: watchers disturb nobody: the rest of the run is what it would be without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final, assert_never

import attrs

from distkv.client.watch import Change, Missed, UpToDate, Watching
from distkv.config import Limits
from distkv.core.ready import Input, Ready
from distkv.model.path import ROOT, Path
from distkv.services.telling import Answer, Durable, Rows, Send, Telling, Wait
from distkv.sim.host import Process
from distkv.sim.rule import BrokenRuleError, Observed, Observer
from distkv.sim.watched import WatchedProcess
from distkv.sim.watched_copy import RULE, WatchedCopy
from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.message import Record
from distkv.wire.replies import decode_reply
from distkv.wire.subtrees import Watch
from distkv.wire.watch import decode_token

SEQ: Final = 1
WATCHERS_MAX: Final = 3
SECONDS_MAX: Final = 20
"""A pause, or the time between two connections, is no longer."""


@attrs.frozen
class Habits:
    """What a watcher watches, and how it does that."""

    path: Path
    pace_ms: int
    """So long it needs for what it gets at once."""
    pauses: float
    """After how much of that it looks away for some seconds."""
    connected_s: int
    """A connection breaks after no more than this."""
    stays: float
    """How often it comes back to the node from which it was cut off, if that runs."""


def draw(seed: int) -> tuple[list[Habits], Limits]:
    """The watchers of a seed, none in most, and how much may wait for each."""
    rng = Random(f"watchers {seed}")
    found = [
        Habits(
            rng.choice([ROOT, Path(["p"]), Path(["p", "0"]), Path(["bulk"])]),
            rng.choice([0, 20, 300]),
            rng.choice([0.0, 0.05, 0.3]),
            rng.choice([5, 30, 1000]),
            rng.choice([0.5, 1.0]),
        )
        for _ in range(rng.randint(1, WATCHERS_MAX) if rng.random() < 0.3 else 0)
    ]
    return found, Limits(watch_changes=rng.choice([4, 30, 1000]), watch_bytes=rng.choice([3000, 1 << 20]))


class SlowWatchers(Observer):
    """All watchers of a run. No change is told after a later one of its path, no queue is longer than it may be, and in
    the end each knows its part of the tree, and how many changes its node missed meanwhile."""

    rule = RULE

    def __init__(self, seed: int, habits: Sequence[Habits], limits: Limits) -> None:
        self._limits: Final = limits
        self._counters: Final = Counter[str]()
        self._clients: Final = [_SlowWatcher(number, one, seed) for number, one in enumerate(habits)]
        self._nodes: Final = dict[str, WatchedProcess]()

    def started(self, process: Process, records: Sequence[Record]) -> None:
        if process.host.is_ours:
            name, limits = process.host.name, self._limits
            history = self._nodes[name].history if name in self._nodes else []
            self._nodes[name] = WatchedProcess(process, limits, history, len(records), self._counters)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if process.host.is_ours and (ready.records or ready.changes):
            self._nodes[process.host.name].stepped(ready)

    def landed(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        if process.host.is_ours:
            self._nodes[process.host.name].tell()

    def ended(self, process: Process) -> None:
        for client in self._clients:
            if client.connection is not None and client.host == process.host.name:
                client.connection.close()

    def second(self, fleet: Observed) -> None:
        for client in self._clients:
            if client.connection is None and client.back_ms <= fleet.now_ms:
                self._connect(client, fleet)
        for name, node in self._nodes.items():
            for feed in node.feeds.all():
                if feed.end - feed.first > self._limits.watch_changes or feed.size > self._limits.watch_bytes:
                    raise self.broken(f"{feed.end - feed.first} changes of {feed.size} bytes wait on {name}")

    def settled(self, fleet: Observed) -> None:
        for client in self._clients:
            if client.connection is None:
                self._connect(client, fleet)
            if client.connection is None:
                raise self.broken("no node serves a watcher")
            client.connection.hurry()
            node = self._nodes[client.host]
            client.belief.compare(client.host, node.replica.tree, node.missed_since)
            self._counters["watch_missed"] += client.belief.missed.total()
        self._counters["watch_went_on"] = sum(client.belief.went_on for client in self._clients)
        fleet.notes.update(+self._counters)

    def _connect(self, client: _SlowWatcher, fleet: Observed) -> None:
        """On the node where it was, or on another one."""
        names = [host.name for host in fleet.ours() if host.live.is_serving and not host.is_paused]
        if names:
            is_back = client.host in names and client.rng.random() < client.habits.stays
            client.host = client.host if is_back else client.rng.choice(names)
            client.connection = _WatchConnection(self._nodes[client.host], client, fleet)
            client.connection.begin()


class _SlowWatcher:
    """One watcher, over as many connections as it takes."""

    def __init__(self, number: int, habits: Habits, seed: int) -> None:
        self.habits: Final = habits
        self.rng: Final = Random(f"watcher {number} {seed}")
        self.belief: Final = WatchedCopy(f"watcher {number}", habits.path)
        self.watching: Final = Watching(habits.path, fetch=True, since=None, min_depth=0, max_depth=None)
        self.connection: _WatchConnection | None = None
        self.host = ""
        """Where it is, or was."""
        self.back_ms = 0
        """When it connects again."""


class _WatchConnection:
    """One watch on one node."""

    def __init__(self, node: WatchedProcess, client: _SlowWatcher, fleet: Observed) -> None:
        self._node: Final = node
        self._client: Final = client
        self._fleet: Final = fleet
        self._question: Final = client.watching.question()
        request = decode_request(self._question.encode(SEQ))
        if not isinstance(request, Watch):
            raise TypeError(f"{request} is no watch")
        self._path: Final = request.path
        self._telling: Final = Telling(node, node.feeds, request, self._send_nowait)
        self._reader: Final = FrameReader()
        self._is_open = True
        self._is_hurried = False
        self._next: Callable[[], None] | None = None
        """What it will do when its time comes."""

    def begin(self) -> None:
        """Ask, and be cut off some time later."""
        client = self._client
        self._fleet.agenda.later(client.rng.randint(1, client.habits.connected_s) * 1000, self.close)
        self._go_on()

    def hurry(self) -> None:
        """Take all there is."""
        self._is_hurried = True
        while (do := self._next) is not None:
            self._next = None
            do()

    def close(self) -> None:
        """What is on its way is lost."""
        if self._is_open:
            self._is_open = False
            self._node.feeds.remove(self._path, self._telling.watcher)
            self._client.connection = None
            self._client.back_ms = self._fleet.now_ms + self._client.rng.randint(0, SECONDS_MAX) * 1000

    # -- inside

    def _go_on(self) -> None:
        """As far as nothing has to be waited for."""
        answer: Answer = None
        while self._is_open:
            effect = self._telling.go_on(answer)
            answer = None
            match effect:
                case None:
                    self.close()
                case Rows(lsn=lsn, limit=limit):
                    answer = self._node.rows(lsn, limit)
                case Durable(position=position):
                    if position > self._node.durable:
                        self._node.process.when_durable(partial(self._later, 0, self._go_on))
                        return
                case Send(data=data):
                    pause_ms = self._pause_ms()
                    if pause_ms:
                        self._later(pause_ms, partial(self._sent, data))
                        return
                    self._read(data)
                case Wait():
                    watcher = self._telling.watcher
                    if not watcher.has_news:
                        watcher.woken, watcher.is_waiting = self._woken, True
                        return
                case _:
                    assert_never(effect)

    def _sent(self, data: bytes) -> None:
        self._read(data)
        self._go_on()

    def _send_nowait(self, data: bytes) -> bool:
        """Pushed to: whoever is slow leaves it lying."""
        if self._pause_ms():
            return False
        self._read(data)
        return True

    def _woken(self) -> None:
        watcher = self._telling.watcher
        watcher.check()
        if watcher.is_waiting:
            watcher.is_waiting = False
            self._later(self._pause_ms(), self._go_on)

    def _read(self, data: bytes) -> None:
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            event = self._question.read(decode_reply(frame))
            self._client.belief.take(event)
            token = decode_token(event.token or b"") if isinstance(event, Change | Missed | UpToDate) else None
            if token is not None and token.lsn > self._node.lsn_behind(self._node.durable):
                raise BrokenRuleError(RULE, f"{event} is told before it is durable")

    def _pause_ms(self) -> int:
        habits, rng = self._client.habits, self._client.rng
        if self._is_hurried:
            return 0
        if rng.random() < habits.pauses:
            return rng.randint(1, SECONDS_MAX) * 1000
        return habits.pace_ms

    def _later(self, delay_ms: int, do: Callable[[], None]) -> None:
        """When the process has time, and the watch is open still."""
        process = self._node.process
        self._next = do
        self._fleet.agenda.later(delay_ms, lambda: process.host.give(process, partial(self._due, do)))

    def _due(self, do: Callable[[], None]) -> None:
        if self._is_open and self._next is do:
            self._next = None
            do()
