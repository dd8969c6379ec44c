"""Carries out what the replica decides.

Knows: the fixed order of a `Ready`, the clock, and where each output goes.  Decides nothing.

Invariant: what Ready k emits leaves only after the records of all Readies up to k are durable; nobody, neither client
nor peer, hears of something that a crash could undo (docs/architecture, 'Ready').
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import trio

from distkv.config import Limits
from distkv.core.ready import (
    AGEING_BYTES,
    AnnounceDue,
    Ask,
    AskEvents,
    AskMaps,
    AskPages,
    AskSnapshot,
    HeardMessage,
    Input,
    LocalSet,
    MembersSeen,
    Note,
    PeerAnswered,
    PeerDone,
    Ready,
    Reply,
    TransportDown,
    TransportGap,
    TransportUp,
    Wake,
)
from distkv.core.replica import Replica
from distkv.engine.arrivals import Arrivals
from distkv.engine.commit import Committer
from distkv.engine.hub import Hub
from distkv.engine.scrub import Scrub
from distkv.engine.settler import Settler
from distkv.engine.trace import Tracing
from distkv.errors import DistkvError, NoSpaceError, PeerError, RequestError, StaleError
from distkv.model.event import Event, NodeName, Tick
from distkv.model.tick_ranges import TickRanges
from distkv.transport.base import Announce, Down, Gap, Heard, Members, Report, Transport, Up
from distkv.wire.codec import Payload
from distkv.wire.message import Message, Update
from distkv.wire.records import encode_record
from distkv.wire.request import ExchangeRequest, GetEvents, GetPages, GetSnapshot, Request
from distkv.wire.room import EVENT_BYTES, answer_room, events_room

log = logging.getLogger("distkv.engine")

DOWNLOAD_BYTES: Final = 1 << 20
"""Without room for so much no download is begun: sponsors would register us again and again in vain."""
LEVELS: Final = {
    **dict.fromkeys(("two_contents", "digest_differs", "damaged"), logging.ERROR),
    **dict.fromkeys(("rolled_back", "own_missing", "later_life", "retired", "stale"), logging.WARNING),
    **dict.fromkeys(("foreign_network", "name_twice", "same_address", "answer_unasked"), logging.WARNING),
    **dict.fromkeys(("ready", "new_life", "unwitnessed", "split_healed"), logging.INFO),
}
"""How loud a note is; the others are counted, and shown with -vv."""
REPEATS_SHOWN: Final = 10
"""So many notes of one id are logged; of more, every hundredth."""


class Caller(Protocol):
    """How a request reaches a peer: `transport.pull.Caller`, or a fake."""

    async def call(self, addr: str, request: Request, take: Callable[[Payload], Awaitable[None]]) -> None:
        """Send `request` to the node at `addr` and hand every item of the answer to `take`.

        Raises:
            DistkvError: what the peer refused with, or PeerError when it cannot be reached or talks nonsense.
        """

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:
        """Wait, some seconds at the most, until the node at `addr` holds later events than these; raises as `call`."""


class Driver:
    """One node at work. `step` is synchronous: one thread owns the replica, so a step is atomic."""

    def __init__(
        self,
        replica: Replica,
        committer: Committer,
        transport: Transport | None,
        caller: Caller,
        limits: Limits,
        settler: Settler | None = None,
        scrub: Scrub | None = None,
    ) -> None:
        self.replica = replica
        self.committer = committer
        self.transport = transport
        self.limits = limits
        self.is_up = False
        """Whether the transport carries messages."""
        self.counters: Counter[str] = Counter()
        self.hub = Hub(limits)
        self.arrivals = Arrivals()
        self.tracing = Tracing(replica, limits, self.counters)
        self.settler = settler
        """Moves the log into the archive; None: the log is all there is."""
        self.scrub = scrub
        """Looks at the archive for damage; None where there is none."""
        self.change_reads = trio.CapacityLimiter(limits.change_reads)
        """Held while a page of changes is built and sent."""
        self._caller = caller
        self._outbox: deque[tuple[int, Message | Ask]] = deque()
        self._must_announce = False
        self._rewind = trio.Event()
        self._deadline_ms: int | None = None
        self._ready = trio.Event()
        self._fatal: DistkvError | None = None
        self._fatal_set = trio.Event()
        self._nursery: trio.Nursery | None = None
        committer.listeners.append(self._send_what_landed)

    # -- time

    @staticmethod
    def now_ms() -> int:
        """The monotonic clock of the core, in milliseconds. Rounded: cut off, a deadline would seem not yet come."""
        return round(trio.current_time() * 1000)

    # -- the way in

    def begin(self) -> None:
        """Start the replica, whose log has been replayed."""
        self.committer.durable_mark = self.replica.tick
        self._carry_out(self.replica.begin(self.now_ms(), time.time()))

    def step(self, what: Input) -> Reply | None:
        """Take one input; the reply may be given away once `position` is durable."""
        ready = self.replica.step(self.now_ms(), time.time(), what)
        if self.tracing.listeners:
            self.tracing.step(what, ready, self.position + len(ready.records))
        if type(what) is not LocalSet:
            self._carry_out(ready)
        else:
            self._carry_out(ready, is_write=True)
            if what.request.ttl is not None or what.request.value is None:
                self._keep_earlier_time()
        return ready.reply

    @property
    def position(self) -> int:
        """Wait for this before anything is given away that the last step changed."""
        return self.committer.appended

    def lsn_behind(self, position: int) -> int:
        """Where in the log the first record behind the first `position` stands; without an archive, just that."""
        return position if self.settler is None else self.settler.first_lsn + position

    def is_durable(self, event: Event) -> bool:
        """Whether an event may be shown: it is somebody else's, or its commit is done."""
        if self.committer.is_idle:
            return True
        return event.node != self.replica.name or event.tick <= self.committer.durable_mark

    def check_room(self, size: int) -> None:
        """Ask before a write of `size` bytes.

        Raises:
            NoSpaceError: the disk is full.
        """
        self.committer.check_room(size + EVENT_BYTES)
        if self.settler is not None:
            self.settler.check_room()

    async def wait_ready(self) -> None:
        """Wait until clients are served."""
        await self._ready.wait()

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:
        """Wait until the node at `addr` durably holds later events than these; none after some seconds.

        Raises:
            DistkvError: it cannot be reached, or refuses.
        """
        return await self._caller.wait_held(addr, nodes)

    # -- work

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled, or until the node must end. Started: after the transport's first attempt.

        Raises:
            StorageFailedError: the disk failed.
            DistkvError: what the replica calls fatal, such as a name that is used twice.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.committer.run)
            nursery.start_soon(self.hub.run)
            nursery.start_soon(self._keep_time)
            if self.settler is not None:
                nursery.start_soon(self.settler.run)
            if self.scrub is not None:
                nursery.start_soon(self.scrub.run)
            nursery.start_soon(self._end_when_fatal)
            if self.transport is not None:
                await nursery.start(self.transport.run, self.hear)
            task_status.started()

    def hear(self, report: Report) -> None:
        """Something from the transport."""
        match report:
            case Heard(message=message):
                if isinstance(message, Update) and not self._may_take(message):
                    return
                self.step(HeardMessage(message))
            case Up():
                self.is_up = True
                log.info("transport_up event_bytes=%d", report.event_bytes)
                self.step(TransportUp())
            case Down():
                # A first start without a messenger ends, with a line of its own: this one would only repeat it.
                is_news = self.is_up or self.replica.network_id is not None
                self.is_up = False
                log.log(logging.WARNING if is_news else logging.INFO, "transport_down reason=%s", report.reason)
                self.step(TransportDown())
            case Gap():
                self.counters["transport_gap"] += 1
                self.step(TransportGap())
            case Announce():
                self.step(AnnounceDue())
            case Members(alive=alive):
                self.step(MembersSeen(alive))

    def _may_take(self, update: Update) -> bool:
        """Whether the disk can follow. An update that is dropped here is a gap, which recovery fills later."""
        if self.committer.waiting_bytes > self.limits.uncommitted_bytes:
            self.counters["dropped_uncommitted"] += 1
            return False
        return self._has_room_for(events_room(update.events))

    def _has_room(self) -> bool:
        """For what the node does by itself; a disk that is full is counted when somebody wants something of it."""
        try:
            self.check_room(AGEING_BYTES)
        except NoSpaceError:
            return False
        return True

    def _has_room_for(self, size: int) -> bool:
        try:
            self.check_room(size)
        except NoSpaceError:
            self.counters["dropped_no_space"] += 1
            return False
        return True

    async def _keep_time(self) -> None:
        while True:
            wake_ms = self.replica.wake_ms()
            self._deadline_ms = wake_ms
            self._rewind = trio.Event()
            deadline = trio.current_time() + 3600 if wake_ms is None else wake_ms / 1000
            with trio.move_on_at(deadline):
                await self._rewind.wait()
                continue
            await trio.lowlevel.checkpoint()
            self.step(Wake(self._has_room()))

    def _keep_earlier_time(self) -> None:
        """The replica may want to be woken sooner now."""
        wake_ms = self.replica.wake_ms()
        if wake_ms is not None and (self._deadline_ms is None or wake_ms < self._deadline_ms):
            self._rewind.set()

    async def _end_when_fatal(self) -> None:
        await self._fatal_set.wait()
        if isinstance(self._fatal, StaleError):
            await self.committer.wait_durable(self.position)  # the mark that tells the next start
        if self._fatal is not None:
            raise self._fatal

    # -- the way out, in the order of Ready

    def _carry_out(self, ready: Ready, *, is_write: bool = False) -> None:
        """`is_write`: a client's, whose session waits for the commit, and which nearly always moves no timer."""
        if ready.records:
            encoded = [encode_record(record) for record in ready.records]
            self.committer.append(encoded, self.replica.tick, is_awaited=is_write)
            if self.settler is not None:
                self.settler.note(ready.records, encoded, ready.changes)
            if self.arrivals.count:
                self.arrivals.note(ready.records)
        for message in ready.messages:
            if self.committer.is_idle:
                self._send(message)
            else:
                self._hold_back(message)
        if self.hub.count:
            self._tell_watchers(ready)
        if ready.fatal is not None:
            self._fatal = ready.fatal
            self._fatal_set.set()
        for note in ready.notes:
            self._note(note)
        if not is_write:
            self._keep_earlier_time()

    def _hold_back(self, message: Message | Ask) -> None:
        """Keep a message until what was decided before it is durable. Asks are few; the rest may be lost here."""
        if len(self._outbox) >= self.limits.outbox and not isinstance(message, Ask):
            self.counters["outbox_full"] += 1
            self._must_announce = True
            return
        self._outbox.append((self.position, message))

    def _send_what_landed(self) -> None:
        """Messages leave in their order, each as soon as its commit is done."""
        while self._outbox and self._outbox[0][0] <= self.committer.durable:
            self._send(self._outbox.popleft()[1])
        if self._must_announce and not self._outbox:
            self._must_announce = False
            self.step(AnnounceDue())
        self.hub.deliver(self.committer.durable)

    def _tell_watchers(self, ready: Ready) -> None:
        self.hub.note(ready.records, ready.changes, self.position, self.replica.tree)
        self.hub.deliver(self.committer.durable)

    def _send(self, message: Message | Ask) -> None:
        if isinstance(message, Ask):
            if self._nursery is not None:
                self._nursery.start_soon(self._ask, message)
        elif self.transport is not None:
            self.transport.broadcast(message)

    def _note(self, note: Note) -> None:
        self.counters[note.id] += 1
        if note.id == "ready":
            self._ready.set()
        count = self.counters[note.id]
        level = LEVELS.get(note.id, logging.DEBUG)
        if note.id == "peer_failed" and not self.replica.is_serving:
            level = logging.WARNING  # a node that cannot become ready should say why
        if log.isEnabledFor(level) and (count <= REPEATS_SHOWN or count % 100 == 0):
            event = note.id + "".join(f" {key}=%s" for key in note.fields)
            log.log(level, event, *note.fields.values())

    # -- peers

    async def _ask(self, ask: Ask) -> None:
        """Carry one request to a peer; its answers are inputs, each durable before the next is read."""

        async def take(answer: Payload) -> None:
            size = answer_room(answer)
            if size and not self._has_room_for(size):
                raise PeerError("the disk is full, what the peer sends was given up")
            self.step(PeerAnswered(ask.id, answer))
            await self.committer.wait_durable(self.position)

        error: DistkvError | None = None
        request = self._request(ask)
        await self.committer.wait_durable(self.position)  # our tick maps may show more than when the ask was decided
        try:
            if isinstance(ask.what, AskSnapshot) and not self._has_room_for(DOWNLOAD_BYTES):
                raise PeerError("the disk is full, nothing is downloaded")
            await self._caller.call(ask.addr, request, take)
        except (PeerError, RequestError) as cause:
            error = cause
        self.step(PeerDone(ask.id, error))

    def _request(self, ask: Ask) -> Request:
        match ask.what:
            case AskMaps() as what:
                return ExchangeRequest(1, self.replica.maps(what))
            case AskEvents(ranges=ranges, doubted=doubted, ticks=ticks, limit=limit):
                return GetEvents(1, ranges, doubted, ticks, limit)
            case AskPages(after=after, until=until, size=size):
                return GetPages(1, after, until, size)
            case AskSnapshot():
                return GetSnapshot(1, self.replica.name, self.replica.started, self.replica.settings.addr)
