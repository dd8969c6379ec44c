"""What clients have a node write: inputs of the core, and what each is answered.

Knows: these values, and what every input says of itself.  Does not know what is decided (`clients`), nor other inputs
(`ready`).

Invariant: a write is carried out in whole or not at all; whoever gives it waits for the commit.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import attrs

from distkv.model.event import Event, Link, NodeName, Tock
from distkv.model.path import Path
from distkv.model.unchecked import unchecked_value
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.value_requests import GetValue, SetValue

# -- what every input says of itself ------------------------------------------------------------------------------


class CoreInput:
    """What the core is told. `engine.driver` carries out what comes of it, as the input says."""

    __slots__ = ()

    is_awaited: ClassVar[bool] = False
    """Whether whoever gives it sees to the commit, as the session of a client does. Else the committer is woken."""

    @property
    def moves_timers(self) -> bool:
        """Whether the core may want to be woken sooner after it. To look costs as much as a small write."""
        return True


class AwaitedInput(CoreInput):
    """Whoever gives it sees to the commit."""

    __slots__ = ()

    is_awaited = True


# -- what clients ask ---------------------------------------------------------------------------------------------


@unchecked_value
class LocalSet(AwaitedInput):
    """A client's write."""

    request: SetValue

    @property
    def moves_timers(self) -> bool:
        """A client's, which nearly always moves none."""
        return self.request.ttl is not None or self.request.value is None


@attrs.frozen(slots=True)
class LocalBatch(AwaitedInput):
    """A client's reads and writes in one step; refused as a whole when one of them is."""

    ops: tuple[GetValue | SetValue, ...]


@attrs.frozen(slots=True)
class RetireNode(AwaitedInput):
    """A client says that a node is gone for good; it was seen alive only if he insists (`force`)."""

    node: NodeName
    force: bool
    answers: bool | None = None
    """Whether it answered under its name when it was asked just now; None: nobody asked."""


@attrs.frozen(slots=True)
class LocalDecision(AwaitedInput):
    """A client decides about an open loser: it is written again, or what won over it is. Both close it."""

    request: Restore | Dismiss


@attrs.frozen(slots=True)
class ReplaceChange(AwaitedInput):
    """A person wants what is here at a path instead of a change that was set aside, on all nodes."""

    path: Path
    link: Link
    tock: Tock


ClientWrite: TypeAlias = LocalSet | LocalBatch | RetireNode | LocalDecision | ReplaceChange
"""What the core refuses while the node serves no clients."""

# -- what they are answered ---------------------------------------------------------------------------------------


@unchecked_value
class WriteDone:
    """The reply to a `LocalSet`, a `LocalDecision` or a `ReplaceChange`."""

    event: Event | None
    """The new event; None when there was nothing to do."""
    prev: Event | None
    """The event that gave the path its value before, or still does."""


@attrs.frozen(slots=True)
class Found:
    """What a read in a `LocalBatch` saw: the event that gives the path its value, if it has one."""

    event: Event | None


@attrs.frozen(slots=True)
class BatchDone:
    """The reply to a `LocalBatch`: what each operation did, in their order."""

    results: tuple[WriteDone | Found, ...]


@attrs.frozen(slots=True)
class Retired:
    """The answer to `RetireNode`."""

    life: int
    """Which life of the node is over."""
    changed: bool
    """False: it was before."""


WriteReply: TypeAlias = WriteDone | BatchDone | Retired
"""If nothing refuses it."""
