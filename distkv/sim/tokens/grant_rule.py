"""Grants of tokens that a server cannot remember.

Knows: which servers had their disks set back, and what they had granted until then.  Does not know what must hold of a
grant (`rules`, `data_rule`).
"""

from __future__ import annotations

from distkv.core.ready import Input, Ready
from distkv.model.fence import NO_GRANT, Fence, GrantNumber
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed
from distkv.sim.tokens.moments import TokenMoment
from distkv.sim.tokens.nodes import TokenNodes, token_nodes
from distkv.sim.tokens.observer import TokenObserver
from distkv.wire.message import ResetRecord, StaleRecord


class GrantRule(TokenObserver):
    """What a rule about grants does not count: the disk of the server was set back, and nothing shows that to it.

    Grants are durable on one server only. Nothing tells it of a grant that this disk has lost, as nothing tells of a
    write that its only disk has lost. A server that begins a new life is different: it counts as lost, and all sessions
    are asked what they hold. So then nothing is left out.
    """

    def __init__(self) -> None:
        self._nodes: TokenNodes | None = None
        self.highest: dict[str, GrantNumber] = {}
        """Of each token the highest fence that a client was told of."""
        self._forgotten: dict[str, dict[str, GrantNumber]] = {}
        """By host whose disk was set back: of each token that it served then the highest fence that there was."""

    def second(self, fleet: Observed) -> None:
        self._nodes = token_nodes(fleet.services)

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        machine = None if self._nodes is None else self._nodes.machines.get(host.name)
        if machine is None or machine.effective is None or host.disk.is_empty or host.disk.rotten is not None:
            return
        forgotten = self._forgotten.setdefault(host.name, {})
        for token, highest in self.highest.items():
            served = machine.served(token)
            if served is not None and machine.effective.server_of(token) == host.node:
                given = [one.number for one in served.holders.values()]
                forgotten[token] = max(highest, *given, forgotten.get(token, highest))

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if any(isinstance(record, ResetRecord | StaleRecord) for record in ready.records):
            self._forgotten.pop(process.host.name, None)

    def told(self, held: TokenMoment) -> None:
        """A client was told of a grant."""
        self.highest[held.token] = max(number_of(held.fence), self.highest.get(held.token, NO_GRANT))

    def is_forgotten(self, token: str, fence: Fence | None) -> bool:
        """Whether a server may not know of this grant, or have repeated it."""
        return any(number_of(fence) <= lost.get(token, NO_GRANT) for lost in self._forgotten.values())


def number_of(fence: Fence | None) -> GrantNumber:
    """What orders grants of a token."""
    return NO_GRANT if fence is None else fence.number
