"""What must be true of the names of the echo: all nodes have them, and each watch knows them; also those that no client
may read in the store.

Knows: what watches were told, and what nodes have.  Does not know what happens to the hosts.
"""

from __future__ import annotations

from distkv.core.ready import Input, Ready, ServiceAsked
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from tests.proof.client.echo import EchoNames
from tests.proof.core.echo.machine import ECHO, Echo
from tests.proof.wire.echo import SECRET, EchoWatch


class NamesAreKnown(Observer):
    """Once all is well each watch of names knows just the names that its node has, and all nodes have the same."""

    rule = "a watch knows all names"

    def __init__(self) -> None:
        self.secret_count = 0
        """How many names that are hidden were known in the end."""
        self._watches: dict[tuple[Process, int], EchoNames] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        if isinstance(what, ServiceAsked) and isinstance(what.request, EchoWatch):
            self._watches[process, what.id] = EchoNames()
        for answer in ready.answers:
            if (process, answer.id) in self._watches:
                self._watches[process, answer.id].take(answer.result)

    def ended(self, process: Process) -> None:
        for key in [key for key in self._watches if key[0] is process]:
            del self._watches[key]

    def settled(self, fleet: Observed) -> None:
        had = {host.name: _names(host.live.services.get(ECHO)) for host in fleet.ours() if host.live.is_serving}
        if any(names != next(iter(had.values())) for names in had.values()):
            raise self.broken(f"nodes do not have the same names: {had}")
        for (process, _), seen in self._watches.items():
            names = had.get(process.host.name)
            if names is not None and seen.error is None and seen.names != names:
                raise self.broken(f"{process.host.name} has {names}, and its client knows {seen.names}")
            self.secret_count += sum(name.startswith(SECRET) for name in seen.names)


def _names(machine: object) -> dict[str, str]:
    if not isinstance(machine, Echo) or machine.ground is None:
        return {}
    return machine.names()
