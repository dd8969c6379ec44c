"""The echo on the hosts of a fleet, and what must be true of it.

Knows: which machine each start of a host has.  Does not know what happens to the hosts.
"""

from __future__ import annotations

import attrs

from distkv.core.ready import Answer, Input, Ready, ServiceAsked
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from tests.proof.core.echo.machine import Echo
from tests.proof.wire.echo import EchoAsk, EchoHeard


@attrs.frozen
class EchoNodes:
    """See `ServiceNodes`."""

    machines: dict[str, Echo] = attrs.field(factory=dict)
    """By host, of its last start."""

    def start(self, host: Host) -> Echo:
        machine = self.machines[host.name] = Echo()
        return machine


class EchoIsTrue(Observer):
    """What comes back is what was said, backwards; once all is well nobody waits for long."""

    rule = "an echo says what was said"

    def __init__(self) -> None:
        self.heard_count = 0
        self._said: dict[tuple[Process, int], str] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        if isinstance(what, ServiceAsked) and isinstance(what.request, EchoAsk):
            self._said[process, what.id] = what.request.text
        for answer in ready.answers:
            self._answered(process, answer)

    def ended(self, process: Process) -> None:
        for key in [key for key in self._said if key[0] is process]:
            del self._said[key]

    def settled(self, fleet: Observed) -> None:  # noqa: ARG002
        if self._said:
            raise self.broken(f"nobody answered {[*self._said.values()]}")

    def _answered(self, process: Process, answer: Answer) -> None:
        said = self._said.pop((process, answer.id), None)
        if said is not None and isinstance(answer.result, EchoHeard):
            self.heard_count += 1
            if answer.result.text != said[::-1]:
                raise self.broken(f"{process.host.name} heard {answer.result.text} of {said}")
