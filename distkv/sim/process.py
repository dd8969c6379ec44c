"""One start of a server: the replica, and all that the engine does around it, without an event loop.

Knows: the order of a `Ready`, what is held back until the disk has followed, and when the replica wants to be woken.
Decides nothing.  Does not know the network between hosts (`fleet`), nor what is right (`rules`).

Invariant: as that of the engine's driver: what Ready k emits leaves only after the records of all Readies up to k are
durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from distkv.core.ready import AGEING_BYTES, AnnounceDue, Ask, Input, Ready, Wake
from distkv.core.replica import Replica
from distkv.errors import StaleError
from distkv.wire.message import Message

if TYPE_CHECKING:
    from distkv.sim.conversation import Conversation
    from distkv.sim.fleet import Fleet
    from distkv.sim.host import Host

OUTBOX_MAX: Final = 256
"""Messages that wait for the disk; past it they are announced."""


class Process:
    """A running server. It is used until it ends; the next start is another one."""

    def __init__(self, fleet: Fleet, host: Host, replica: Replica, settings: Mapping[str, Any]) -> None:
        self.host = host
        self.settings = settings
        """What every start of it is told, by the names of `CoreSettings`."""
        self.replica = replica
        self.wake_at_ms: int | None = None
        """True time of the next wake, if nothing happens before."""
        self.serving: dict[Conversation, None] = {}
        """Whose requests it is answering."""
        self._fleet = fleet
        self._outbox: deque[tuple[int, Message | Ask]] = deque()
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()
        self._must_announce = False

    @property
    def now_ms(self) -> int:
        """True time."""
        return self._fleet.now_ms

    # -- in

    def begin(self) -> None:
        fleet, clock = self._fleet, self.host.clock
        self._carry_out(None, self.replica.begin(clock.monotonic_ms(fleet.now_ms), clock.wall(fleet.now_ms)))

    def step(self, what: Input) -> Ready:
        """Take one input, and carry out what comes of it."""
        fleet, clock = self._fleet, self.host.clock
        ready = self.replica.step(clock.monotonic_ms(fleet.now_ms), clock.wall(fleet.now_ms), what)
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
        fleet = self._fleet
        at_ms = self.host.clock.when(shown_ms, fleet.now_ms)
        if at_ms != self.wake_at_ms:
            self.wake_at_ms = at_ms
            fleet.at(at_ms, lambda: self.wake(at_ms))

    @property
    def is_running(self) -> bool:
        return self.host.process is self

    # -- out

    def when_durable(self, do: Callable[[], object]) -> None:
        """Do it as soon as everything that was decided so far is on the disk; never, when the process ends before."""
        if self.host.disk.is_idle:
            do()
        else:
            self._waiting.append((self.host.disk.appended, do))

    def landed(self) -> None:
        """The disk followed: what waited for it leaves, in its order."""
        disk = self.host.disk
        while self.is_running and self._outbox and self._outbox[0][0] <= disk.durable:
            self._send(self._outbox.popleft()[1])
        while self.is_running and self._waiting and self._waiting[0][0] <= disk.durable:
            self._waiting.popleft()[1]()
        if self._must_announce and not self._outbox and self.is_running:
            self._must_announce = False
            self.step(AnnounceDue())

    # -- inside

    def _carry_out(self, what: Input | None, ready: Ready) -> None:
        fleet, disk = self._fleet, self.host.disk
        for tell in fleet.told.stepped:
            tell(self, what, ready)
        for note in ready.notes:
            fleet.notes[note.id] += 1
        if ready.records:
            disk.append(ready.records)
            fleet.commit(self)
        if isinstance(ready.fatal, StaleError):
            self.when_durable(lambda: fleet.later(0, partial(fleet.begin_again, self)))
        elif ready.fatal is not None:
            self.host.fatal = ready.fatal
            fleet.end(self.host)
            return
        for message in ready.messages:
            if disk.is_idle:
                self._send(message)
            elif len(self._outbox) < OUTBOX_MAX or isinstance(message, Ask):
                self._outbox.append((disk.appended, message))
            else:
                fleet.notes["outbox_full"] += 1
                self._must_announce = True
        self.replan()

    def _send(self, message: Message | Ask) -> None:
        if isinstance(message, Ask):
            self._fleet.ask(self, message)
        elif self.host.agent.is_up:
            self._fleet.gossip(self, message)
