"""What `distkv doctor` sees of the activity network, and what it makes of that.

Knows: what a node shows of it.  Does not know how nodes are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from distkv.doctor.facts import Finding, Level, NodeFacts
from distkv.doctor.services import Checkup
from distkv.doctor.wording import counted, listed
from distkv.wire.fields import read_int

ACTIVITY: Final = "activity"


@attrs.frozen
class ActivityFacts:
    """What a node shows of it."""

    clients: int
    """How many are logged in."""


def read(shown: Mapping[str, object]) -> ActivityFacts | None:
    """What the state of a node says; None: it has no listener.

    Raises:
        DecodeError: it cannot be meant.
    """
    return ActivityFacts(read_int(shown, "clients")) if "clients" in shown else None


def check(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether all nodes have a listener, where some have."""
    found = {node.name: facts for node in nodes if isinstance(facts := node.services.get(ACTIVITY), ActivityFacts)}
    lacking = [node.name for node in nodes if node.name not in found]
    if found and lacking:
        says = f"nodes without a listener for the activity network, which others have: {listed(lacking)}"
        yield Finding(ACTIVITY, Level.WARN, says, "set activity.listen there, and start them again")
    elif found:
        clients = sum(facts.clients for facts in found.values())
        yield Finding(ACTIVITY, Level.OK, f"{counted(clients, 'client')} at {counted(len(found), 'node')}")


CHECKUP: Final = Checkup(ACTIVITY, read, check)
