"""One start of a server: the replica, and all that the engine does around it, without an event loop.

Knows: where each output of the replica goes, and when it wants to be woken.  Decides nothing.  Does not know in which
order outputs leave (`engine.executor`), the network between hosts (`fleet`), nor what is right (`rules`).

Invariant: as that of the engine's driver: a step is carried out before the next one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from distkv.core.ready import AGEING_BYTES, AnnounceDue, Ask, Input, Note, Ready, Reply, Wake
from distkv.core.replica import Replica
from distkv.engine.executor import Executor, Outlets
from distkv.errors import DistkvError, NoSpaceError, StaleError
from distkv.wire.message import Message
from distkv.wire.room import EVENT_BYTES

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
        outlets = Outlets(self._write, self._send, self._ask, self._tell, self._end, self._note, self._announce)
        self._executor = Executor(host.disk, outlets, OUTBOX_MAX)

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

    # -- out

    def when_durable(self, do: Callable[[], object]) -> None:
        """Do it as soon as everything that was decided so far is on the disk; never, when the process ends before."""
        self._executor.when_durable(do)

    def landed(self) -> None:
        """The disk followed: what waited for it leaves, in its order."""
        self._executor.landed()

    def stop(self) -> None:
        """It has ended, whatever it was about to do."""
        self._executor.stop()

    # -- inside, in the order of `Outlets`

    def _carry_out(self, what: Input | None, ready: Ready) -> None:
        for tell in self._fleet.told.stepped:
            tell(self, what, ready)
        self._executor.carry_out(ready)
        if self.is_running:
            self.replan()

    def _write(self, ready: Ready, _: bool) -> None:
        self.host.disk.append(ready.records)
        self._fleet.commit(self)

    def _send(self, message: Message) -> None:
        if self.host.agent.is_up:
            self._fleet.gossip(self, message)

    def _ask(self, ask: Ask) -> None:
        self._fleet.ask(self, ask)

    def _tell(self, ready: Ready) -> None:
        """Watchers are observers here, and see the whole step."""

    def _end(self, error: DistkvError) -> None:
        fleet = self._fleet
        if isinstance(error, StaleError):
            fleet.later(0, partial(fleet.begin_again, self))
        else:
            self.host.fatal = error
            fleet.end(self.host)

    def _note(self, note: Note) -> None:
        self._fleet.notes[note.id] += 1

    def _announce(self) -> None:
        self.step(AnnounceDue())
