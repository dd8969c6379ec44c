"""One machine: its clock, its disk, its Serf agent, and the server process while it runs.

Knows: what reaches a process that is there, stopped or paused; where each output of its replica goes, and when it wants
to be woken.  Decides nothing.  Does not know in which order outputs leave (`engine.executor`), what lies between hosts
(`fleet`), nor what is right (`rules`).

Invariant: as that of the engine's driver, a step is carried out before the next one is taken; what arrives for a paused
process reaches it in order when it goes on, but for the gossip that its agent's stream had no room for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Protocol

import attrs

from distkv.config import Limits
from distkv.core.edges import EdgeInput
from distkv.core.ground.contained import fault_of
from distkv.core.ready import (
    AGEING_BYTES,
    AnnounceDue,
    Answer,
    Ask,
    FollowersSeen,
    FollowFrom,
    Input,
    LendTo,
    Note,
    Ready,
    Reply,
    ServiceTell,
    Wake,
    Work,
    WorkDone,
)
from distkv.core.replica import Replica
from distkv.engine.executor import Executor, Outlets
from distkv.engine.followers import Followers
from distkv.engine.shared_queue import News
from distkv.errors import DistkvError, InternalError, NoSpaceError, StaleError
from distkv.model.event import NodeName
from distkv.sim.agent import Agent
from distkv.sim.clock import HostClock
from distkv.sim.disk import VirtualDisk
from distkv.sim.tree_edges import EdgesBetween, VirtualEdges
from distkv.wire.message import Message
from distkv.wire.records import encode_record
from distkv.wire.room import EVENT_BYTES

OUTBOX_MAX: Final = 256
"""Messages that wait for the disk; past it they are announced."""
WORK_MS: Final = 40
"""So long it takes what a service does on a thread."""
FOLLOW_LIMITS: Final = Limits(follow_events=64, follow_bytes=1 << 20)
"""Few, so that followers fall out of the queue."""


class PendingAnswer(Protocol):
    """A request of a peer that a process is answering."""

    def reset(self) -> None:
        """The process has ended."""

    def forget(self) -> None:
        """The machine has forgotten the connection, and the asker is not told."""


class OpenStream(Protocol):
    """A follow that is under way."""

    def close(self) -> None:
        """It is wanted no more."""

    def lose(self) -> None:
        """The machine has forgotten the connection, and the peer is not told."""


class Surroundings(EdgesBetween, Protocol):
    """What a process sees of the world."""

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        """A step was taken, of which nothing is carried out yet."""

    def commit(self, process: Process) -> None:
        """Something waits for the disk."""

    def gossip(self, process: Process, message: Message) -> None:
        """A message for all."""

    def ask(self, process: Process, ask: Ask) -> None:
        """A request to a peer."""

    def say(self, process: Process, tells: Sequence[ServiceTell]) -> None:
        """Tell services of other nodes something."""

    def follow(self, process: Process, follow: FollowFrom) -> None:
        """Follow a peer from now on, or no more."""

    def begin_again(self, process: Process) -> None:
        """Its disk turns out to be an old one."""

    def end(self, host: Host) -> None:
        """It ends."""


@attrs.define(eq=False)
class Host:
    """One machine."""

    name: str
    addr: str
    node: NodeName
    """The name of the server that runs here: its own, but for a second server of one name."""
    is_ours: bool = True
    """Whether it belongs to the fleet that is looked at."""
    clock: HostClock = attrs.field(factory=HostClock)
    pace: Random = attrs.field(factory=Random)
    """How fast its disk is; drawn from by nothing else, so that it moves nothing else."""
    disk: VirtualDisk = attrs.field(factory=VirtualDisk)
    agent: Agent = attrs.field(factory=Agent)
    process: Process | None = None
    fatal: DistkvError | None = None
    """Why the last process ended by itself."""
    boot_off_ms: int = 0
    """By how much the clock that began with the machine's last start is ahead of the monotonic one."""
    _held: list[tuple[Process, Callable[[], object]]] | None = None
    """What waits for the paused process."""

    @property
    def live(self) -> Replica:
        """The replica of the running process."""
        if self.process is None:
            raise ValueError(f"{self.name} does not run")
        return self.process.replica

    @property
    def own_addr(self) -> str:
        """Where it is reached, if nobody made a mistake."""
        return f"{self.name}:1"

    def boot_ms(self, now_ms: int) -> int:
        """What the clock shows that began with the machine's last start."""
        return self.clock.monotonic_ms(now_ms) + self.boot_off_ms

    @property
    def is_paused(self) -> bool:
        return self._held is not None

    def pause(self) -> None:
        """The process gets no more time."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """The process goes on with what waited for it."""
        held, self._held = self._held or [], None
        self.agent.held = 0
        for process, do in held:
            self.give(process, do)
        if self.process is not None:
            self.process.edges.is_stalled = False
            self.process.replan()

    def give(self, process: Process, do: Callable[[], object]) -> None:
        """Let a process do something, now or when it goes on; nothing, when it has ended."""
        if self.process is not process:
            return
        if self._held is None:
            do()
        else:
            self._held.append((process, do))

    @property
    def is_listening(self) -> bool:
        """Whether gossip reaches the process at once."""
        return self._held is None and self.process is not None and self.agent.is_up

    def hear(self, do: Callable[[], object]) -> bool:
        """The same with gossip; False when it is lost on this host."""
        process, agent = self.process, self.agent
        if process is None or not agent.is_up:
            return False
        if self.is_paused:
            agent.held += 1
            if agent.held > agent.stream_events:
                return False
        self.give(process, do)
        return True


class Process:
    """A running server. It is used until it ends; the next start is another one."""

    def __init__(self, around: Surroundings, host: Host, replica: Replica, settings: Mapping[str, Any]) -> None:
        self.host = host
        self.settings = settings
        """What every start of it is told, by the names that `core_settings` takes."""
        self.replica = replica
        self.wake_at_ms: int | None = None
        """True time of the next wake, if nothing happens before."""
        self.serving: dict[PendingAnswer, None] = {}
        """The requests that it is answering."""
        self.following: dict[NodeName, OpenStream] = {}
        """Whom it follows."""
        self._news: Final = News()
        self.followers: Final = Followers(FOLLOW_LIMITS, self._news)
        """Who follows it."""
        self.asked: dict[int, Callable[[Answer], object]] = {}
        """Who waits for answers of services, by the number of the request."""
        self.connected: dict[object, Callable[[], object]] = {}
        """Clients, and how each is told that its connection broke."""
        self.edges: Final = VirtualEdges(self, around)
        """In the server tree."""
        self._requests = 0
        self._seen = Counter[NodeName]()
        self._around = around
        self._agenda = around.agenda
        outlets = Outlets(
            self._write, self._send, self._ask, self._say, self._follow, self._lend, self._work, self.edges,
            self._answer, self._tell, self._end, self._note, self._announce,
        )
        self._executor = Executor(host.disk, outlets, OUTBOX_MAX)

    @property
    def now_ms(self) -> int:
        """True time."""
        return self._agenda.now_ms

    # -- for its edges

    @property
    def host_name(self) -> str:
        """That of its machine."""
        return self.host.name

    @property
    def node(self) -> NodeName:
        """Its own name."""
        return self.host.node

    @property
    def life(self) -> int:
        """That of its directory."""
        return self.replica.life or 0

    @property
    def is_paused(self) -> bool:
        """Whether it gets no time."""
        return self.host.is_paused

    def give(self, what: EdgeInput) -> None:
        """Take an input now, or when it goes on."""
        self.host.give(self, partial(self.step, what))

    # -- in

    def begin(self) -> None:
        clock, now_ms = self.host.clock, self._agenda.now_ms
        boot_ms = self.host.boot_ms(now_ms)
        self._carry_out(None, self.replica.begin(clock.monotonic_ms(now_ms), clock.wall(now_ms), boot_ms))

    def step(self, what: Input) -> Ready:
        """Take one input, and carry out what comes of it."""
        clock, now_ms = self.host.clock, self._agenda.now_ms
        boot_ms = self.host.boot_ms(now_ms) if self.replica.services else None
        ready = self.replica.step(clock.monotonic_ms(now_ms), clock.wall(now_ms), what, boot_ms)
        self._carry_out(what, ready)
        return ready

    def wake(self, at_ms: int) -> None:
        """The time came for which a wake was planned, unless there is another plan by now."""
        if self.wake_at_ms == at_ms and self.is_running and not self.host.is_paused:
            self.wake_at_ms = None
            self.step(Wake(self.host.disk.has_room(AGEING_BYTES)))

    def replan(self) -> None:
        """Plan the next wake; also when the clock began to run at another rate."""
        shown_ms = self.replica.wake_ms()
        if shown_ms is None:
            self.wake_at_ms = None
            return
        at_ms = self.host.clock.when(shown_ms, self._agenda.now_ms)
        if at_ms != self.wake_at_ms:
            self.wake_at_ms = at_ms
            self._agenda.at(at_ms, lambda: self.wake(at_ms))

    @property
    def is_running(self) -> bool:
        return self.host.process is self

    def check_room(self, size: int) -> None:
        """Ask before a write of `size` bytes.

        Raises:
            NoSpaceError: the disk is full.
        """
        if not self.host.disk.has_room(size + EVENT_BYTES):
            raise NoSpaceError("the disk is full, nothing was changed")

    def reply(self, what: Input) -> Reply | None:
        """Take an input that is answered."""
        return self.step(what).reply

    def next_request(self) -> int:
        """A number for a request to a service."""
        self._requests += 1
        return self._requests

    # -- out

    def when_durable(self, do: Callable[[], object]) -> None:
        """Do it as soon as everything that was decided so far is on the disk; never, when the process ends before."""
        self._executor.when_durable(do)

    def landed(self) -> None:
        """The disk followed: what waited for it leaves, in its order."""
        self._executor.landed()
        if self.followers.count:
            self.followers.deliver(self.host.disk.durable)
            for _ in self._news.turns():
                pass

    def stop(self) -> None:
        """It has ended, whatever it was about to do."""
        self._executor.stop()
        for stream in [*self.following.values()]:
            stream.close()
        self.following.clear()
        for tell in [*self.connected.values()]:
            tell()
        self.edges.stop()

    def forget_connections(self) -> None:
        """The machine has forgotten all connections of follows, and those on which it answers."""
        for answer in [*self.serving]:
            answer.forget()
        for stream in [*self.following.values()]:
            stream.lose()
        self.edges.forget()

    def followed(self, name: NodeName, *, is_seen: bool) -> None:
        """A node follows this one for what it makes, or does not any more."""
        self._seen[name] += 1 if is_seen else -1
        self._seen = +self._seen
        self.step(FollowersSeen(frozenset(self._seen)))

    # -- inside, in the order of `Outlets`

    def _carry_out(self, what: Input | None, ready: Ready) -> None:
        self._around.stepped(self, what, ready)
        self._executor.carry_out(ready)
        if self.is_running:
            self.replan()

    def _write(self, ready: Ready, _: bool) -> None:
        self.host.disk.append(ready.records)
        if self.followers.count:
            encoded = [encode_record(record) for record in ready.records]
            self.followers.note(ready.records, encoded, self.host.disk.appended)
        self._around.commit(self)

    def _send(self, message: Message) -> None:
        if self.host.agent.is_up:
            self._around.gossip(self, message)

    def _ask(self, ask: Ask) -> None:
        self._around.ask(self, ask)

    def _say(self, tells: Sequence[ServiceTell]) -> None:
        self._around.say(self, tells)

    def _answer(self, answer: Answer) -> None:
        tell = self.asked.pop(answer.id, None) if answer.is_last else self.asked.get(answer.id)
        if tell is not None:
            tell(answer)

    def _follow(self, follow: FollowFrom) -> None:
        self._around.follow(self, follow)

    def _lend(self, lend: LendTo) -> None:
        """Nothing comes of it: hosts here have no connection whose ends could change places."""

    def _work(self, work: Work) -> None:
        """It is done at once, and takes its time all the same."""
        found: list[object] = []
        fault = fault_of(lambda: found.append(_result(work)))
        result = found[0] if fault is None else InternalError(f"{fault.error} in work of {work.service}")
        tell = partial(self.step, WorkDone(work.service, work.id, result))
        self._agenda.later(WORK_MS, lambda: self.host.give(self, tell))

    def _tell(self, ready: Ready) -> None:
        """Watchers are observers here, and see the whole step."""

    def _end(self, error: DistkvError) -> None:
        if isinstance(error, StaleError):
            self._agenda.later(0, partial(self._around.begin_again, self))
        else:
            self.host.fatal = error
            self._around.end(self.host)

    def _note(self, note: Note) -> None:
        self._around.notes[note.id] += 1

    def _announce(self) -> None:
        self.step(AnnounceDue())


def _result(work: Work) -> object:
    try:
        return work.job()
    except DistkvError as error:
        return error
