"""What the services of this node must know again after a crash: values by the name of the service and a key.

Knows: what each service keeps, and when all of it is void.  Does not know what a value means, nor who keeps it.

A slot belongs to this disk alone. It is in no event, no digest and no download, and no backup has it.

Invariant: every change has a record, and replaying the records in order gives the same slots again. When some of what
the disk had is damaged, nothing of it counts: a service that knows a part of its promises could break the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from distkv.model.invariant import must
from distkv.wire.message import SlotRecord

Slot: TypeAlias = tuple[str, str, bytes]
"""The name of the service, the key, and the value."""


class Slots:
    """Those of all services of one node."""

    def __init__(self) -> None:
        self.void_count = 0
        """How often all of them became void; whoever works with them has to begin anew then."""
        self.is_damaged = False
        """Whether some of what the disk had could not be read at this start."""
        self._held: Final[dict[str, dict[str, bytes]]] = {}

    @property
    def all(self) -> Mapping[str, Mapping[str, bytes]]:
        """By the name of the service; not to be changed."""
        return self._held

    def of(self, machine: str) -> Mapping[str, bytes]:
        """What one service keeps; not to be changed."""
        return self._held.get(machine, {})

    def keep(self, machine: str, key: str, value: bytes | None) -> list[SlotRecord]:
        """Keep a value from now on; None: none any more. No record when it is so already."""
        if self.of(machine).get(key) == value:
            return []
        self._put(machine, key, value)
        return [SlotRecord(machine, key, value)]

    def void(self) -> list[SlotRecord]:
        """What was promised is void, because the disk is an old one; with the records that say so."""
        gone = [SlotRecord(machine, key, None) for machine, held in self._held.items() for key in held]
        self.reset()
        return gone

    def reset(self) -> None:
        """All is void, and something else says so: everything before a reset is."""
        self._held.clear()
        self.void_count += 1
        self.is_damaged = False

    # -- the disk

    def load(self, rows: Iterable[Slot] | None) -> None:
        """Take over what was archived; None: some of it is damaged. Then the log, which has only what came since, does
        not count either: the next settlement writes the archive without all of it."""
        self.is_damaged = rows is None
        for machine, key, value in rows or ():
            self._put(machine, key, value)

    def replay(self, record: SlotRecord) -> None:
        """Repeat one record of the log."""
        if not self.is_damaged:
            self._put(record.machine, record.key, record.value)

    # -- inside

    def _put(self, machine: str, key: str, value: bytes | None) -> None:
        held = self._held.setdefault(machine, {})
        if value is not None:
            held[key] = value
            return
        held.pop(key, None)
        if not held:
            del self._held[machine]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(self._held.values()), "no service is remembered that keeps nothing")
