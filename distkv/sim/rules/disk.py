"""A crash takes nothing that was durable, and a start comes to the state that was left.

Knows: what each disk was told to keep.  Does not know how it does.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from distkv.sim.host import Host, Process
from distkv.sim.rule import Observer
from distkv.wire.message import Record
from distkv.wire.records import encode_record


@attrs.define
class _DiskPromise:
    """What a host's disk must give back at the next start."""

    found: list[bytes]
    """What the last start found."""
    landed: list[Record] = attrs.field(factory=list)
    """What became durable since."""
    flying: list[Record] = attrs.field(factory=list)
    """The batch that was being written at the end: there whole, or not at all."""
    state: tuple[object, ...] | None = None
    """What the replica held, if all of it was durable when the process ended."""


class DiskKeeps(Observer):
    """What a start replays is what was durable."""

    rule = "disks keep what they said they have"

    def __init__(self) -> None:
        self._kept: dict[str, _DiskPromise] = {}

    def started(self, process: Process, records: Sequence[Record]) -> None:
        name, found = process.host.name, _encoded(records)
        kept = self._kept.get(name)
        if kept is not None:
            before = kept.found + _encoded(kept.landed)
            if found not in (before, before + _encoded(kept.flying)):
                raise self.broken(f"{name} wrote {len(before)} records, and its start finds {len(found)}")
            if kept.state is not None and found == before and kept.state != _state(process):
                raise self.broken(f"{name} comes back as {_state(process)}, and it was {kept.state}")
        self._kept[name] = _DiskPromise(found)

    def landed(self, process: Process, records: Sequence[Record]) -> None:
        self._kept[process.host.name].landed += records

    def ended(self, process: Process) -> None:
        disk, kept = process.host.disk, self._kept[process.host.name]
        kept.flying = list(disk.flying)
        kept.state = _state(process) if disk.is_idle and process.replica.life is not None else None

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._kept.pop(host.name, None)


def _state(process: Process) -> tuple[object, ...]:
    replica = process.replica
    tree = replica.tree
    return tree.digest, len(tree), replica.tick, replica.life, tree.ledger.held()


def _encoded(records: Sequence[Record]) -> list[bytes]:
    """Events are equal by identity only, so records are compared as the log has them."""
    return [encode_record(record) for record in records]
