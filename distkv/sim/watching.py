"""Slow watchers: clients that watch a part of the tree, take what they are told at their own pace, pause, lose their
connection and go on with their token, on the same node or on another one.

What is real: who is told what (`engine.feeds`), in which order (`services.telling`), its bytes, and what a client makes
of them (`client.watch`).  What is not: the archive, which is a list here of what won, and the stream between them.

Invariant: watchers disturb nobody: the rest of the run is what it would be without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.client.watch import Begun, Change, Contested, Resync, UpToDate, Watching
from distkv.config import Limits
from distkv.core.ready import Input, Ready
from distkv.engine.feeds import Feeds
from distkv.model.event import Link, tick_text
from distkv.model.path import ROOT, Path
from distkv.model.tree import Tree
from distkv.services.telling import Answer, Durable, Rows, Send, Telling, Wait
from distkv.sim.fleet import Fleet
from distkv.sim.process import Process
from distkv.sim.rule import Watcher
from distkv.storage.archive import HistoryRow
from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.message import EventRecord, Record
from distkv.wire.records import encode_record
from distkv.wire.replies import decode_reply
from distkv.wire.request import Watch
from distkv.wire.states import path_key
from distkv.wire.values import pack_value
from distkv.wire.watch import Token, decode_token

SEQ: Final = 1
WATCHERS_MAX: Final = 3
SECONDS_MAX: Final = 20
"""A pause, or the time between two connections, is no longer."""

_Order: TypeAlias = tuple[int, bool, int]
_Row: TypeAlias = tuple[int, EventRecord]


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


class _Node:
    """What a server is to its watchers, from one start to the end of that process."""

    def __init__(
        self, process: Process, limits: Limits, history: list[_Row], begin: int, counters: Counter[str]
    ) -> None:
        self.process: Final = process
        self.feeds: Final = Feeds(limits)
        self.history: Final = [row for row in history if row[0] < begin]
        """What won, and where in the log it stands."""
        self.position = 0
        self.counters: Final = counters
        self.connections: Final[list[_Connection]] = []
        self._first_lsn: Final = begin

    @property
    def tree(self) -> Tree:
        return self.process.replica.tree

    @property
    def durable(self) -> int:
        return self.process.host.disk.durable

    def token(self, position: int) -> Token:
        replica = self.process.replica
        return Token(replica.name, replica.life or 0, self._first_lsn + position)

    def stepped(self, ready: Ready) -> None:
        """As the engine's driver does, and its settler."""
        begin = self._first_lsn + self.position
        self.position += len(ready.records)
        won = {id(change.event) for change in ready.changes if change.won}
        self.history.extend(
            (lsn, record)
            for lsn, record in enumerate(ready.records, begin)
            if isinstance(record, EventRecord) and id(record.event) in won
        )
        if self.feeds.count:
            self.feeds.note(ready.records, ready.changes, self.position, self.tree)
            self.tell()

    def tell(self) -> None:
        """What is durable now is told to those who have time."""
        self.feeds.deliver(self.durable)
        for _ in self.feeds.turns():
            pass
        for connection in list(self.connections):
            connection.landed()

    def rows(self, lsn: int, limit: int) -> list[HistoryRow]:
        """As the archive has them."""
        found = [row for row in self.history if row[0] >= lsn][:limit]
        return [
            HistoryRow(at, path_key(one.event.path), one.event.node, one.event.tick, 0.0, encode_record(one), True)
            for at, one in found
        ]


class _Client:
    """One watcher: what it believes."""

    def __init__(self, number: int, habits: Habits, rng: Random, rule: Watcher) -> None:
        self.habits: Final = habits
        self.rng: Final = rng
        self.connection: _Connection | None = None
        self.back_ms = 0
        """When it connects again."""
        self.host = ""
        """Where it is, or was."""
        self.values: dict[Path, tuple[Link, object]] = {}
        self.conflicts: dict[Path, frozenset[Link]] = {}
        self.is_up_to_date = False
        self.went_on = 0
        """How often it went on with its token."""
        self.watching: Final = Watching(habits.path, fetch=True, since=None, min_depth=0, max_depth=None)
        self._name: Final = f"watcher {number} of {habits.path}"
        self._told: dict[Path, _Order] = {}
        self.rule: Final = rule
        self._knew_all = False

    def take(self, event: Begun | Change | Contested | Resync | UpToDate) -> None:
        """As a user does, who keeps a copy."""
        match event:
            case Begun():
                self.conflicts.clear()  # all that are open follow
                self.is_up_to_date = False
            case Resync():
                self.values.clear()
                self.conflicts.clear()
                self._told.clear()
                self.is_up_to_date = self._knew_all = False
            case UpToDate(token=token):
                self.went_on += self._knew_all and token is not None
                self.is_up_to_date = self._knew_all = True
            case Contested(path=path, losers=losers):
                self.conflicts.pop(path, None)
                if losers:
                    self.conflicts[path] = frozenset(losers)
            case Change(path=path, link=link):
                order = event.tock, not event.is_expired, event.link[1]
                if self._told.get(path, order) > order:
                    raise self.rule.broken(f"{self._name} is told of {tick_text(*link)} at {path} after a later one")
                self._told[path] = order
                self.values.pop(path, None)
                if not event.is_deleted:
                    self.values[path] = link, event.value
            case _:
                assert_never(event)

    def compare(self, host: str, tree: Tree) -> None:
        """At the end it believes what its node holds."""
        if not self.is_up_to_date:
            raise self.rule.broken(f"{self._name} is not told by {host} all that there is")
        path = self.habits.path
        shown = {entry.head.path: (entry.head.link, entry.head.value) for entry in tree.walk(path) if entry.is_live}
        known = {path: (link, pack_value(value)) for path, (link, value) in self.values.items()}
        self._check_equal(known, shown, host)
        contested = [entry for entry in tree.contested_below(path) if entry.conflicts()]
        open_now = {
            entry.head.path: frozenset(loser.link for loser in entry.conflicts())
            for entry in contested
            if path.is_reserved or not entry.head.path.is_reserved
        }
        self._check_equal(self.conflicts, open_now, f"of the conflicts {host}")

    def _check_equal(self, known: Mapping[Path, object], shown: Mapping[Path, object], who: str) -> None:
        for path in sorted(known.keys() | shown.keys(), key=str):
            if known.get(path) != shown.get(path):
                raise self.rule.broken(f"at {path} {self._name} knows {known.get(path)}, {who} has {shown.get(path)}")


class _Connection:
    """One watch on one node."""

    def __init__(self, node: _Node, client: _Client, fleet: Fleet) -> None:
        self._node, self._client, self._fleet = node, client, fleet
        self._question = client.watching.question()
        request = decode_request(self._question.encode(SEQ))
        if not isinstance(request, Watch):
            raise TypeError(f"{request} is no watch")
        self._path: Final = request.path
        self._telling: Final = Telling(node, node.feeds, request, self._send_nowait)
        self._reader: Final = FrameReader()
        self._is_open = True
        self._is_hurried = False
        self._durable_at: int | None = None
        """What it waits for."""
        self._next: Callable[[], None] | None = None
        """What it will do when its time comes."""
        node.connections.append(self)

    def begin(self) -> None:
        """Ask, and be cut off some time later."""
        client = self._client
        self._fleet.later(client.rng.randint(1, client.habits.connected_s) * 1000, self.close)
        self._go_on(None)

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
            self._node.connections.remove(self)
            self._client.connection = None
            self._client.back_ms = self._fleet.now_ms + self._client.rng.randint(0, SECONDS_MAX) * 1000

    def landed(self) -> None:
        """More is durable."""
        if self._durable_at is not None and self._durable_at <= self._node.durable:
            self._durable_at = None
            self._later(0, partial(self._go_on, None))

    # -- inside

    def _go_on(self, answer: Answer) -> None:
        """As far as nothing has to be waited for."""
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
                        self._durable_at = position
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
        self._go_on(None)

    def _send_nowait(self, data: bytes) -> bool:
        """Pushed to: whoever is slow leaves it lying."""
        if self._pause_ms():
            return False
        self._read(data)
        return True

    def _woken(self) -> None:
        watcher = self._telling.watcher
        if watcher.is_waiting:
            watcher.is_waiting = False
            self._later(self._pause_ms(), partial(self._go_on, None))

    def _read(self, data: bytes) -> None:
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            event = self._question.read(decode_reply(frame))
            self._client.take(event)
            token = decode_token(event.token or b"") if isinstance(event, Change | UpToDate) else None
            if token is not None and token.lsn > self._node.token(self._node.durable).lsn:
                raise self._client.rule.broken(f"{event} is told before it is durable")

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
        self._fleet.later(delay_ms, lambda: process.host.give(process, partial(self._due, do)))

    def _due(self, do: Callable[[], None]) -> None:
        if self._is_open and self._next is do:
            self._next = None
            do()


class SlowWatchers(Watcher):
    """All watchers of a run. No change is told after a later one of its path, no queue is longer than it may be, and in
    the end each knows its part of the tree."""

    rule = "watchers know the tree"

    def __init__(self, seed: int, habits: Sequence[Habits], limits: Limits) -> None:
        self._limits: Final = limits
        rngs = [Random(f"watcher {number} {seed}") for number in range(len(habits))]
        self._counters: Final[Counter[str]] = Counter()
        self._clients: Final = [
            _Client(number, one, rng, self) for number, (one, rng) in enumerate(zip(habits, rngs, strict=True))
        ]
        self._nodes: Final[dict[str, _Node]] = {}

    def started(self, process: Process, records: Sequence[Record]) -> None:
        if process.host.is_ours:
            before = self._nodes.get(process.host.name)
            history = [] if before is None else before.history
            self._nodes[process.host.name] = _Node(process, self._limits, history, len(records), self._counters)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if process.host.is_ours and (ready.records or ready.changes):
            self._nodes[process.host.name].stepped(ready)

    def landed(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        if process.host.is_ours:
            self._nodes[process.host.name].tell()

    def ended(self, process: Process) -> None:
        if process.host.is_ours:
            for connection in list(self._nodes[process.host.name].connections):
                connection.close()

    def second(self, fleet: Fleet) -> None:
        for client in self._clients:
            if client.connection is None and client.back_ms <= fleet.now_ms:
                self._connect(client, fleet)
        for name, node in self._nodes.items():
            for feed in node.feeds.all():
                if feed.end - feed.first > self._limits.watch_changes or feed.size > self._limits.watch_bytes:
                    raise self.broken(f"{feed.end - feed.first} changes of {feed.size} bytes wait on {name}")

    def settled(self, fleet: Fleet) -> None:
        for client in self._clients:
            if client.connection is None:
                self._connect(client, fleet)
            if client.connection is None:
                raise self.broken("no node serves a watcher")
            client.connection.hurry()
            client.compare(client.host, self._nodes[client.host].tree)
        self._counters["watch_went_on"] = sum(client.went_on for client in self._clients)
        fleet.notes.update(+self._counters)

    def _connect(self, client: _Client, fleet: Fleet) -> None:
        """On the node where it was, or on another one."""
        names = [host.name for host in fleet.ours() if host.live.is_serving and not host.is_paused]
        if names:
            is_back = client.host in names and client.rng.random() < client.habits.stays
            client.host = client.host if is_back else client.rng.choice(names)
            client.connection = _Connection(self._nodes[client.host], client, fleet)
            client.connection.begin()
