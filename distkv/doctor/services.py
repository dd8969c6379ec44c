"""What `distkv doctor` looks at in each service.

Knows: which services are mounted.  Does not know what is well in any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from distkv import mount
from distkv.doctor.facts import Finding, NodeFacts


@attrs.frozen
class Checkup:
    """That of one service."""

    name: str
    read: Callable[[Mapping[str, object]], object]
    """Makes facts of what the state of a node shows of the service. Raises DecodeError, when that cannot be meant."""
    check: Callable[[Sequence[NodeFacts]], Iterator[Finding]]
    """What is to be said of it. Each node has the facts in `services`, the first is the one that was asked."""


def checkups() -> tuple[Checkup, ...]:
    """Of the services that have one."""
    return tuple([part.CHECKUP for part in mount.parts("doctor")])
