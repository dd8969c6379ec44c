"""What a run must not break, as something that observes it.

Knows: what an observer is told, and when.  Does not know any rule.

Invariant: an observer changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from distkv.core.ready import Ask, Input, Ready
from distkv.model.event import Event
from distkv.sim.agenda import Agenda
from distkv.sim.host import Host, Process
from distkv.sim.service_nodes import ServiceNodes
from distkv.wire.message import Message, Record


class BrokenRuleError(Exception):
    """The run showed something that must never be."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


class Observed(Protocol):
    """All hosts, as far as observers look at them; a `fleet`."""

    @property
    def agenda(self) -> Agenda: ...
    @property
    def hosts(self) -> dict[str, Host]: ...
    @property
    def notes(self) -> Counter[str]: ...
    @property
    def now_ms(self) -> int: ...
    @property
    def services(self) -> Mapping[str, ServiceNodes]: ...

    def running(self) -> Iterator[Host]:
        """Those of them that have a process."""

    def ours(self) -> Iterator[Host]:
        """Those of these that belong to the fleet that is looked at."""


class Observer:
    """Told of everything that happens; by itself it does nothing.

    All methods may raise BrokenRuleError.
    """

    rule = ""
    """Its name, for people."""

    def started(self, process: Process, records: Sequence[Record]) -> None:
        """A process replayed what its disk held, and has not begun."""

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        """A step was taken, or (None) the process began; nothing of it is carried out yet."""

    def landed(self, process: Process, records: Sequence[Record]) -> None:
        """Records became durable."""

    def left(self, process: Process, message: Message | Ask) -> None:
        """A message left the host."""

    def carried(self, host: Host, message: Message, size: int) -> None:
        """The agent of a host sends a packet of so many bytes to all agents."""

    def transferred(self, host: Host, other: Host, size: int) -> None:
        """So many bytes of a request, or of its answer, arrived at `host` from another one."""

    def streamed(self, host: Host, other: Host, size: int) -> None:
        """So many bytes of a follow arrived at `host` from another one."""

    def delivered(self, host: Host, what: Input) -> None:
        """Something arrived from another host."""

    def acknowledged(self, process: Process, event: Event) -> None:
        """A client was told that its write is durable."""

    def moment(self, at_ms: int, what: object) -> None:
        """Something of a service has changed for one of its clients; the service has the forms of that."""

    def client(self, at_ms: int, name: str, what: str) -> None:
        """A client of a service comes to something, as people say it; `befell` tells only of what befalls nodes."""

    def befell(self, at_ms: int, name: str, what: str) -> None:
        """A fault, or its end: what happens to a host, or (with an empty name) to the network, as people say it."""

    def ended(self, process: Process) -> None:
        """A process is about to end; its disk is as it left it."""

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:
        """A disk was wiped or set back; whether another one has all that was on it."""

    def second(self, fleet: Observed) -> None:
        """One more second has passed."""

    def settled(self, fleet: Observed) -> None:
        """The faults are over and the network is at rest, or its time is up."""

    def broken(self, what: str) -> BrokenRuleError:
        return BrokenRuleError(self.rule, what)


class Observers:
    """For each thing that happens, who is told of it: those observers only that make something of it."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        every, none = observers, Observer
        self.started = [one.started for one in every if type(one).started is not none.started]
        self.stepped = [one.stepped for one in every if type(one).stepped is not none.stepped]
        self.landed = [one.landed for one in every if type(one).landed is not none.landed]
        self.left = [one.left for one in every if type(one).left is not none.left]
        self.carried = [one.carried for one in every if type(one).carried is not none.carried]
        self.transferred = [one.transferred for one in every if type(one).transferred is not none.transferred]
        self.streamed = [one.streamed for one in every if type(one).streamed is not none.streamed]
        self.delivered = [one.delivered for one in every if type(one).delivered is not none.delivered]
        self.acknowledged = [one.acknowledged for one in every if type(one).acknowledged is not none.acknowledged]
        self.moment = [one.moment for one in every if type(one).moment is not none.moment]
        self.client = [one.client for one in every if type(one).client is not none.client]
        self.befell = [one.befell for one in every if type(one).befell is not none.befell]
        self.ended = [one.ended for one in every if type(one).ended is not none.ended]
        self.lost_disk = [one.lost_disk for one in every if type(one).lost_disk is not none.lost_disk]
        self.second = [one.second for one in every if type(one).second is not none.second]
        self.settled = [one.settled for one in every if type(one).settled is not none.settled]
