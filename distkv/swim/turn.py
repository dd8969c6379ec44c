"""What one step of the machine gathers, and what the parts of the machine ask of each other in it.

Knows: the time of the step, and lists.  Does not know why anything is in them.

Invariant: it lasts for one step.
"""

from __future__ import annotations

import attrs

from distkv.swim.inputs import Datagram, SwimReport
from distkv.wire.swim_records import Address, Rumour


@attrs.frozen(slots=True)
class Teller:
    """Whoever sent the datagram that is being handled."""

    address: Address
    start: bytes | None
    """What the seal proves; None: there is no secret."""
    is_fresh: bool = True
    """False: this may have been sent to a life of this node before."""


@attrs.define(slots=True, eq=False)
class SwimTurn:
    """One step."""

    now_ms: int
    datagrams: list[Datagram] = attrs.field(factory=list)
    reports: list[SwimReport] = attrs.field(factory=list)
    answers: dict[str, Rumour] = attrs.field(factory=dict)
    """What the sender of the datagram that is being handled should know, by node."""
    found: list[str] = attrs.field(factory=list)
    """Nodes that live and did not before: they are to be probed."""
    suspected: list[str] = attrs.field(factory=list)
    """Nodes of whose suspicion this node hears for the first time."""
