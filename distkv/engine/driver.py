"""One node at work under trio: the clock, the transport and peers on one side, the replica on the other.

Knows: where each output of the replica goes, and when it wants to be woken.  Decides nothing, and does not know in
which order outputs leave (`engine.executor`).

Invariant: one thread owns the replica, and a step is carried out before the next one is taken; nobody, neither client
nor peer, hears of something that a crash could undo (docs/architecture, 'Ready').
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import assert_never

import trio

from distkv.config import Limits
from distkv.core.ready import (
    AGEING_BYTES,
    AnnounceDue,
    FollowersSeen,
    HeardMessage,
    Input,
    LendTo,
    MembersSeen,
    Note,
    Ready,
    Reply,
    TransportDown,
    TransportGap,
    TransportUp,
    Wake,
    WorkDone,
)
from distkv.core.replica import Replica
from distkv.engine.arrivals import Arrivals
from distkv.engine.asides import AsideKeeper
from distkv.engine.caller import Caller
from distkv.engine.commit import Committer, LateCommits
from distkv.engine.executor import Executor, Outlets
from distkv.engine.faults import Faults
from distkv.engine.followers import FollowLimits
from distkv.engine.hub import Hub
from distkv.engine.journal import Journal
from distkv.engine.noticing import Noticing
from distkv.engine.peer_tasks import PeerTasks
from distkv.engine.scarce import LARGE_BYTES, has_memory_for
from distkv.engine.scrub import Scrub
from distkv.engine.service_desk import ServiceDesk
from distkv.engine.settler import Settler
from distkv.engine.trace import Tracing
from distkv.engine.traffic import LinkTraffic
from distkv.engine.tree_edges import TreeEdges
from distkv.engine.turn_work import TurnWork
from distkv.engine.works import Works
from distkv.errors import BusyError, NoSpaceError, PeerError
from distkv.model.event import Event, NodeName, Tick
from distkv.model.tick_ranges import TickRanges
from distkv.transport.base import Announce, Down, Gap, GossipHeard, Members, Report, Transport, Up
from distkv.transport.loans import Loans
from distkv.wire.message import Message, Update
from distkv.wire.records import encode_record
from distkv.wire.room import EVENT_BYTES, events_room

log = logging.getLogger("distkv.engine")


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
        silent_s: float = 3.0,
    ) -> None:
        """`silent_s`: a node that is followed, and of which nothing comes for so long, is left."""
        self.replica = replica
        self.committer = committer
        self.transport = transport
        self.limits = limits
        self.silent_s = silent_s
        self.is_up = False
        """Whether the transport carries messages."""
        self.noticing = Noticing(transport, lambda name: name in replica.registry.nodes)
        self.counters: Counter[str] = Counter()
        self.faults = Faults(self.counters)
        self.aside = AsideKeeper(replica, self.counters)
        self.work = TurnWork()
        self.follow_limits = FollowLimits(lambda name: name in replica.registry.nodes)
        self.tree_edges = TreeEdges(self)
        """In the server tree."""
        self.loans: Loans | None = None
        """Connections that are lent to and by this node; None: there are none."""
        self._offers, self.offers = trio.open_memory_channel[LendTo](replica.settings.fanout)
        """To whom one is to be lent (`services.connections`). The core wants no more of them at a time."""
        self.clients = 0
        """How many connections are open on which no node asked."""
        self.hub = Hub(limits, self.faults.contain)
        self.arrivals = Arrivals()
        self.journal = Journal(replica)
        self.tracing = Tracing(replica, limits, self.counters)
        self.settler = settler
        """Moves the log into the archive; None: the log is all there is."""
        self.scrub = scrub
        """Looks at the archive for damage; None where there is none."""
        self.change_reads = trio.CapacityLimiter(limits.change_reads)
        """Held while a page of changes is built and sent."""
        self.boot_ms: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        """The time of services, in milliseconds: that of the monotonic clock that goes on while the machine sleeps."""
        self._caller = caller
        self._peers = PeerTasks(self, caller)
        replica.store.data.check_room = self.check_room
        self.services = ServiceDesk(self, replica, caller, limits.service_requests, self.counters, self.faults)
        self._works = Works(self._worked, self.faults)
        outlets = Outlets(
            self._write, self._send, self._peers.ask, self.services.say, self._peers.follow, self._begin_lend,
            self._works.start, self.tree_edges, self.services.answer, self._tell, self._end, self._note, self._announce,
        )  # fmt: skip
        self._executor = Executor(committer, outlets, limits.outbox, self.faults.contain)
        self._late_commits = LateCommits(committer)
        self._rewind = trio.Event()
        self._deadline_ms: int | None = None
        self._ready = trio.Event()
        self._fatal: Exception | None = None
        self._fatal_set = trio.Event()
        self._followers: Counter[NodeName] = Counter()
        self._traffic: dict[NodeName, LinkTraffic] = {}
        committer.listeners.append(self._landed)

    # -- time

    @staticmethod
    def now_ms() -> int:
        """The monotonic clock of the core, in milliseconds. Rounded: cut off, a deadline would seem not yet come."""
        return round(trio.current_time() * 1000)

    # -- the way in

    def begin(self) -> None:
        """Start the replica, whose log has been replayed."""
        self.committer.durable_mark = self.replica.tick
        self.journal.begin(self.now_ms())
        self._executor.carry_out(self.replica.begin(self.now_ms(), time.time(), self.boot_ms()))
        self.aside.begin(self.step)
        self._keep_earlier_time()

    def step(self, what: Input, *, is_sifted: bool = False) -> Reply | None:
        """Take one input; the reply may be given away once `position` is durable. `is_sifted`: nothing in it is set
        aside.

        Raises:
            InternalError: it is set aside.
        """
        if self.aside.is_watchful and not is_sifted:
            return self.aside.step(what, self.step)
        boot_ms = self.boot_ms() if self.replica.services else None
        try:
            ready = self.replica.step(self.now_ms(), time.time(), what, boot_ms)
            if self.tracing.listeners:
                self.tracing.step(what, ready, self.position + len(ready.records))
            if len(ready.answers) > 1:
                self.services.give_together(lambda: self._executor.carry_out(ready, is_awaited=what.is_awaited))
            else:
                self._executor.carry_out(ready, is_awaited=what.is_awaited)
            if what.moves_timers:
                self._keep_earlier_time()
            return ready.reply
        except Exception as error:  # whoever gave the input may contain it: the node ends all the same
            if self.settler is not None:
                self.settler.is_void = True
            self.aside.failed(what, error)
            self._end(error)
            raise

    @property
    def position(self) -> int:
        """Wait for this before anything is given away that the last step changed."""
        return self.committer.appended

    @property
    def durable(self) -> int:
        """How many records are durable."""
        return self.committer.durable

    def lsn_behind(self, position: int) -> int:
        """Where in the log the first record behind the first `position` stands; without an archive, just that."""
        return position if self.settler is None else self.settler.first_lsn + position

    def is_durable(self, event: Event) -> bool:
        """Whether an event may be shown: it is somebody else's, or its commit is done."""
        if self.committer.is_idle:
            return True
        return event.node != self.replica.name or event.tick <= self.committer.durable_mark

    def when_durable(self, do: Callable[[], object]) -> None:
        """Call it as soon as all that was decided so far is durable; never, when the node ends before."""
        self._executor.when_durable(do)

    def commit(self) -> None:
        """Have what was taken in committed: now, if somebody waits to be told of it."""
        hub, committer = self.hub, self.committer
        if committer.is_idle:
            return
        is_waited_for = hub.count or hub.followers.are_waiting or self.arrivals.count or self._executor.is_waiting
        if is_waited_for or committer.is_wanted:
            committer.hurry(self)
        else:
            self._late_commits.put_off()

    def commit_with_others(self) -> None:
        """Have what a client asked for committed with what others ask who are read with him: whoever reads them sees to
        that (`Committer.is_wanted`). What nobody waits for is put off."""
        if self._executor.is_waiting:
            self.committer.is_wanted = True
        elif not self.committer.is_idle:
            self._late_commits.put_off()

    def check_room(self, size: int) -> None:
        """Ask before a write of `size` bytes.

        Raises:
            NoSpaceError: the disk is full.
            BusyError: there is not enough memory.
        """
        self.check_memory(size)
        self.committer.check_room(size + EVENT_BYTES)
        if self.settler is not None:
            self.settler.check_room()

    def check_memory(self, size: int) -> None:
        """Ask before so much is taken in.

        Raises:
            BusyError: there is not enough memory.
        """
        is_doubtful = size >= LARGE_BYTES or self.faults.memory_ran_out
        if is_doubtful and not has_memory_for(size, self.committer.waiting_bytes):
            self.counters["refused_memory"] += 1
            raise BusyError(f"{self.replica.name} has not enough memory for this request now: try again later")

    async def wait_ready(self) -> None:
        """Wait until clients are served."""
        await self._ready.wait()

    async def answers(self, name: NodeName) -> bool:
        """Whether a node answers under this name where it was seen the last time."""
        try:
            return (await self._caller.greeting(self.replica.addr_of(name))).node == name
        except PeerError:
            return False

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:
        """Wait until the node at `addr` durably holds later events than these; none after some seconds.

        Raises:
            DistkvError: it cannot be reached, or refuses.
        """
        return await self._caller.wait_held(addr, nodes)

    def follower_came(self, name: NodeName) -> None:
        """A node follows this one for what it makes, and says that it does."""
        self._followers[name] += 1
        self.step(FollowersSeen(frozenset(self._followers)))

    @property
    def follower_count(self) -> int:
        """How many nodes follow this one for what it makes, and are heard."""
        return len(self._followers)

    def follower_went(self, name: NodeName) -> None:
        """It does not any more, or is not heard."""
        self._followers[name] -= 1
        self._followers = +self._followers
        self.step(FollowersSeen(frozenset(self._followers)))

    def traffic(self, name: NodeName) -> LinkTraffic:
        """What went between this node and a registered one; what strangers get is counted nowhere."""
        if name not in self.replica.registry.nodes:
            return LinkTraffic()
        return self._traffic.setdefault(name, LinkTraffic())

    # -- work

    async def _alone(self, what: str, run: Callable[[], Awaitable[object]]) -> None:
        """Something that the node can do without until its next start."""
        try:
            await run()
        except Exception as error:
            self.faults.contain(error, f"{what}, which is off from now on")

    async def run(
        self,
        before: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Work until cancelled, or until the node must end. Started: after the transport's first attempt. `before` is
        done when requests are answered already, and others hear nothing of the node yet; what it raises ends the node.

        Raises:
            StorageFailedError: the disk failed.
            DistkvError: what the replica calls fatal, such as a name that is used twice.
        """
        async with trio.open_nursery() as nursery:
            self._peers.begin(nursery)
            self._works.begin(nursery)
            nursery.start_soon(self.committer.run)
            nursery.start_soon(self._late_commits.run)
            nursery.start_soon(self.hub.run)
            nursery.start_soon(self._keep_time)
            if self.settler is not None:
                nursery.start_soon(self.settler.run)
            if self.scrub is not None:
                nursery.start_soon(self._alone, "scrub", self.scrub.run)
            if self.replica.server_tree is not None:
                nursery.start_soon(self._alone, "tree", self.tree_edges.run)
            nursery.start_soon(self._end_when_fatal)
            await before()
            if self.transport is not None:
                if self.replica.network_id is not None:
                    self.transport.appear()
                await nursery.start(self.transport.run, self.hear)
            task_status.started()

    def hear(self, report: Report) -> None:
        """Something from the transport."""
        try:
            self._hear(report)
        except Exception as error:
            self.faults.contain(error, f"what the transport told: {type(report).__name__}")

    def _hear(self, report: Report) -> None:
        match report:
            case GossipHeard(message=message):
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
            case _:
                assert_never(report)

    def _may_take(self, update: Update) -> bool:
        """Whether the disk can follow. An update that is dropped here is a gap, which recovery fills later."""
        if self.committer.waiting_bytes > self.limits.uncommitted_bytes:
            self.counters["dropped_uncommitted"] += 1
            return False
        return self.has_room_for(events_room(update.events))

    def _has_room(self) -> bool:
        """For what the node does by itself; a disk that is full is counted when somebody wants something of it."""
        try:
            self.check_room(AGEING_BYTES)
        except NoSpaceError:
            return False
        return True

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes of records fit; if not, what somebody tells is dropped."""
        try:
            self.check_room(size)
        except (NoSpaceError, BusyError):
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
            self.journal.look(self.now_ms())
            self.aside.look()

    def _keep_earlier_time(self) -> None:
        """The replica may want to be woken sooner now."""
        wake_ms = self.replica.wake_ms()
        if wake_ms is not None and (self._deadline_ms is None or wake_ms < self._deadline_ms):
            self._rewind.set()

    async def _end_when_fatal(self) -> None:
        await self._fatal_set.wait()
        if self._fatal is not None:
            raise self._fatal

    # -- the way out, in the order of `Outlets`

    def _write(self, ready: Ready, is_awaited: bool) -> None:
        encoded = [encode_record(record) for record in ready.records]
        self.committer.append(encoded, self.replica.tick, is_awaited=is_awaited)
        if self.settler is not None:
            self.settler.note(ready.records, encoded, ready.changes)
        if self.arrivals.count:
            self.arrivals.note(ready.records)
        if self.hub.followers.count:
            self.hub.followers.note(ready.records, encoded, self.position)

    def _send(self, message: Message) -> None:
        if self.transport is not None:
            try:
                self.transport.broadcast(message)
            except Exception as error:  # it may be lost on its way, too
                self.faults.contain(error, "a message to all")

    def _begin_lend(self, lend: LendTo) -> None:
        if self.loans is not None:
            self._offers.send_nowait(lend)

    def _worked(self, done: WorkDone) -> None:
        self.step(done)
        self.commit()

    def _tell(self, ready: Ready) -> None:
        self.journal.changed(ready.changes)
        if self.hub.count:
            self.hub.note(ready.records, ready.changes, self.position, self.replica.tree)
            self.hub.deliver(self.committer.durable)

    def _end(self, error: Exception) -> None:
        self._fatal = self._fatal or error
        self._fatal_set.set()

    def _note(self, note: Note) -> None:
        self.counters[note.id] += 1
        if note.id == "ready":
            self._ready.set()
            if self.transport is not None:
                self.transport.appear()  # one that founds or joins may have been refused until now
        self.journal.note(note, self.counters[note.id])

    def _announce(self) -> None:
        self.step(AnnounceDue())

    def _landed(self) -> None:
        """A commit is done."""
        self.services.give_together(self._executor.landed)
        self.hub.deliver(self.committer.durable)
