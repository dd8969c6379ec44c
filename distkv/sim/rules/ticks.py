"""No tick and no tock that anybody heard of is used again, whatever crashed meanwhile (TICK-1, TOCK-2).

Knows: what left each host, and what it makes.  What no disk kept and nobody heard of may be used once more.
"""

from __future__ import annotations

from distkv.core.ready import Ask, Input, PeerAnswered, Ready
from distkv.model.event import Event, Writer, tick_text
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observer
from distkv.wire.message import EventBatch, Message, Update


class TicksRise(Observer):
    """Ticks and tocks of a node are above all that others heard of it."""

    rule = "ticks and tocks rise"

    def __init__(self) -> None:
        self._heard: dict[Writer, int] = {}
        self._tocks: dict[str, int] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        name = process.host.node
        for message in ready.messages:
            if isinstance(message, Update):
                for event in message.events:  # a node broadcasts what it has just made, and nothing else
                    if event.node == name and event.tick <= self._heard.get(event.writer, -1):
                        raise self.broken(f"{name} uses {tick_text(*event.link)}, and others heard of it before")

    def left(self, process: Process, message: Message | Ask) -> None:
        if isinstance(message, Ask):
            return
        name, tock = process.host.name, message.header.tock
        if isinstance(message, Update):
            for event in message.events:
                self._hear(event)
        said = self._tocks.get(name, -1)
        if tock < said or (tock == said and not isinstance(message, Update)):  # two updates of one step share a tock
            raise self.broken(f"{name} says the tock {tock}, and said {said} before")
        self._tocks[name] = tock

    def delivered(self, host: Host, what: Input) -> None:  # noqa: ARG002
        if isinstance(what, PeerAnswered) and isinstance(what.answer, EventBatch):
            for event in what.answer.events:
                self._hear(event)

    def acknowledged(self, process: Process, event: Event) -> None:  # noqa: ARG002
        self._hear(event)

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._tocks.pop(host.name, None)

    def _hear(self, event: Event) -> None:
        self._heard[event.writer] = max(self._heard.get(event.writer, -1), event.tick)
