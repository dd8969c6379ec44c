"""What a full outbox drops is announced (docs/protocol, UPD-1).

Knows: which updates a node decided to send, and which left.  Does not know the outbox.
"""

from __future__ import annotations

from distkv.core.ready import Ask, Input, Ready, TransportDown, TransportUp
from distkv.model.event import Tick
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import Info, Message, Update


class DroppedIsAnnounced(Observer):
    """An own change leaves in an update when the disk has followed; or its tick, or a later one, in an `info`."""

    rule = "what a full outbox drops is announced"

    def __init__(self) -> None:
        self.count = 0
        """How many changes were announced only."""
        self._unsaid: dict[Process, set[Tick]] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        unsaid = self._unsaid.setdefault(process, set())
        if isinstance(what, TransportUp | TransportDown):
            unsaid.clear()
        for message in ready.messages:
            if isinstance(message, Update) and process.host.agent.is_up:
                unsaid |= {event.tick for event in message.events}

    def left(self, process: Process, message: Message | Ask) -> None:
        unsaid = self._unsaid.get(process)
        if not unsaid:
            return
        if isinstance(message, Update):
            unsaid -= {event.tick for event in message.events}
        elif isinstance(message, Info) and message.ticks and (told := message.ticks.get(process.host.node)):
            announced = {tick for tick in unsaid if tick <= max(told)}
            self.count += len(announced)
            unsaid -= announced

    def second(self, fleet: Observed) -> None:  # noqa: ARG002
        for process, unsaid in self._unsaid.items():
            host = process.host
            if unsaid and host.disk.is_idle and host.agent.is_up:
                raise self.broken(f"{host.name} is silent about {len(unsaid)} own changes, the last {max(unsaid)}")

    def ended(self, process: Process) -> None:
        self._unsaid.pop(process, None)
