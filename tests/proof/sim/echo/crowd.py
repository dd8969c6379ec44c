"""The echo on the hosts of a fleet, and its clients.

Knows: which machine each start of a host has, and who asks it.  Does not know what is right (`rule`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from distkv.core.ready import Answer, ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.errors import DistkvError
from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host, Process
from distkv.wire.services import ServiceRequest
from tests.proof.client.echo import EchoNames
from tests.proof.core.echo.machine import ECHO, PATIENCE_MS, Echo
from tests.proof.sim.echo.actions import AskEcho, HoldEcho, KeepEcho, ListEcho, NameEcho, NoteEcho, SealEcho, ShoutEcho
from tests.proof.wire.echo import (
    EchoAsk,
    EchoHeard,
    EchoHold,
    EchoKeep,
    EchoList,
    EchoName,
    EchoNote,
    EchoNotes,
    EchoSeal,
    EchoShout,
    EchoWatch,
)


@attrs.frozen
class EchoNodes:
    """See `ServiceNodes`."""

    machines: dict[str, Echo] = attrs.field(factory=dict)
    """By host, of its last start."""

    def start(self, host: Host) -> Echo:
        machine = self.machines[host.name] = Echo()
        return machine


LAST: Final = "the last word"
WAY_MS: Final = 2
"""Between a node and its client."""
LEAVES_MS: Final = 50
"""So soon a client leaves that does not wait for its answer."""


class EchoCrowd:
    """One client at each node, which sees all names and all notes; others come and ask."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet: Final = fleet
        self._watching: Final = dict[str, tuple[Process, EchoNames]]()

    def do(self, action: ServiceAction) -> str:
        match action:
            case AskEcho(node=node, other=other, text=text, is_early=is_early):
                request: ServiceRequest = EchoAsk(1, other, text, is_early)
            case SealEcho(node=node, text=text):
                request = EchoSeal(1, text)
            case HoldEcho(node=node, token=token):
                request = EchoHold(1, token)
            case NameEcho(node=node, name=name, text=text):
                request = EchoName(1, name, text)
            case KeepEcho(node=node, key=key, text=text):
                request = EchoKeep(1, key, text)
            case ShoutEcho(node=node, text=text, times=times):
                request = EchoShout(1, text, times)
            case NoteEcho(node=node, name=name, text=text, is_once=is_once, has_effects=has_effects):
                request = EchoNote(1, name, text, is_once, has_effects)
            case ListEcho(node=node, after=after):
                request = EchoList(1, after=after)
            case _:
                raise TypeError(f"{action} is none of the echo")
        process = self._fleet.hosts[node].process
        if ECHO not in self._fleet.services:
            return "there is no echo: say 'settings echo=yes' first"
        if process is None:
            return f"{node} does not run"
        self._watch(node, process)
        number = self._ask(process, request, partial(self._heard, node))
        if isinstance(action, NoteEcho) and action.leaves:
            leave = partial(process.step, ServiceWithdrawn(ECHO, number))
            self._fleet.later(LEAVES_MS, partial(process.host.give, process, leave))
        return ""

    def lines(self) -> list[str]:
        return [f"{node}: its client knows {names.text()}" for node, (_, names) in sorted(self._watching.items())]

    def shown(self, action: ShowService) -> list[str]:  # noqa: ARG002  # there is only one
        return self.lines()

    def all_is_well(self) -> bool:
        if ECHO not in self._fleet.services:
            return False
        hosts = [host for host in self._fleet.ours() if host.live.is_serving]
        for host in hosts:
            self.do(AskEcho(host.name, hosts[0].node, "all is well"))
        self._fleet.run(PATIENCE_MS)  # before that a node may lack it, because it has no parent yet
        for host in hosts:
            self.do(ShoutEcho(host.name, LAST))
        self._fleet.run(PATIENCE_MS)
        return True

    # -- inside

    def _ask(self, process: Process, request: ServiceRequest, tell: Callable[[Answer], None]) -> int:
        number = process.next_request()
        process.asked[number] = tell
        process.host.give(process, partial(process.step, ServiceAsked(ECHO, number, request)))
        return number

    def _heard(self, node: str, answer: Answer) -> None:
        what = answer.result
        if isinstance(what, EchoHeard):
            self._fleet.client(node, f"hears {what.text}")
        elif isinstance(what, DistkvError):
            self._fleet.client(node, f"refuses: {what.code}")

    def _watch(self, node: str, process: Process) -> None:
        """A client that knows all names and notes; anew when the node began anew."""
        if self._watching.get(node, (None,))[0] is not process:
            names = EchoNames()
            self._watching[node] = process, names
            self._ask(process, EchoWatch(1), partial(self._told, node, process, names))
            self._ask(process, EchoNotes(1), partial(self._told, node, process, None))

    def _told(self, node: str, process: Process, names: EchoNames | None, answer: Answer) -> None:
        if names is not None:
            names.take(answer.result)
        if isinstance(answer.result, DistkvError):  # it is not ready yet: the next one who comes watches once more
            self._watching.pop(node, None)
        if not answer.is_last:  # it can take more
            go_on = partial(process.step, ServiceContinued(ECHO, answer.id))
            self._fleet.later(WAY_MS, partial(process.host.give, process, go_on))
