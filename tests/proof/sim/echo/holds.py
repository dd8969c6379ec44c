"""What must be true of entries that the echo writes under the fences of tokens.

Knows: what was answered, and what nodes have.  Does not know who serves tokens.
"""

from __future__ import annotations

from distkv.core.ready import Input, Ready, ServiceAsked
from distkv.model.fence import Fence, read_fence_text
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from tests.proof.core.echo.machine import ECHO, Echo
from tests.proof.wire.echo import EchoHeard, EchoHold


class FencesAreHeld(Observer):
    """Whoever has an entry written under a fence is answered, and has a fence of its own. Once all is well, the entry
    is that of the highest one, or of one that nobody was told of; unless a disk was lost."""

    rule = "an entry is that of the highest fence"

    def __init__(self) -> None:
        self.held: dict[str, Fence] = {}
        """The highest fence that was answered, by token."""
        self.held_count = 0
        self._fences: set[str] = set()
        self._open: dict[tuple[Process, int], EchoHold] = {}
        self._is_lost = False

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        if isinstance(what, ServiceAsked) and isinstance(what.request, EchoHold):
            self._open[process, what.id] = what.request
        for answer in ready.answers:
            asked = self._open.pop((process, answer.id), None)
            if asked is not None and isinstance(answer.result, EchoHeard):
                self._holds(process, asked.token, answer.result.text)

    def ended(self, process: Process) -> None:
        for key in [key for key in self._open if key[0] is process]:
            del self._open[key]

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._is_lost = True

    def settled(self, fleet: Observed) -> None:
        if self._open:
            raise self.broken(f"nobody answered {[*self._open.values()]}")
        if self._is_lost:
            return
        for host in fleet.ours():
            machine = host.live.services.get(ECHO)
            if not isinstance(machine, Echo) or not host.live.is_serving:
                continue
            names = machine.names()
            for token, fence in self.held.items():
                found = read_fence_text(names.get(token, ""))
                if found is None or found < fence:
                    raise self.broken(f"{host.name} has {names.get(token)} of {token}, and {fence} was answered")

    # -- inside

    def _holds(self, process: Process, token: str, text: str) -> None:
        if text in self._fences:
            raise self.broken(f"{process.host.name} holds {token} with {text}, which another one had")
        self._fences.add(text)
        self.held_count += 1
        fence = read_fence_text(text)
        if fence is None or fence.token != token:
            raise self.broken(f"{process.host.name} holds {token} with {text}")
        self.held[token] = max(fence, self.held.get(token, fence))
