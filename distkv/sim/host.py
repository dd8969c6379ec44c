"""One machine: its clock, its disk, its Serf agent, and the server process while it runs.

Knows: what reaches a process that is there, stopped or paused.  Does not know when anything happens (`fleet`).

Invariant: what arrives for a paused process reaches it in order when it goes on, but for the gossip that its agent's
stream had no room for.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import attrs

from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.sim.agent import Agent
from distkv.sim.clock import HostClock
from distkv.sim.disk import VirtualDisk

if TYPE_CHECKING:
    from distkv.core.replica import Replica
    from distkv.sim.process import Process

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
