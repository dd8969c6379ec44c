"""A write that is answered when several nodes hold it: what any write may ask for, whatever it writes.

Knows: which writes may, and the two fields that ask for it.  Does not know what is written.

Invariant: what is asked besides is a write like any other; without the two fields it is just that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from distkv.model.lean import lean_value
from distkv.wire.fields import Fields, read_int, read_seconds
from distkv.wire.row import REPLICA_FIELDS, WAIT_S_MAX, AnyRow, Found, Read, ReplyForm, RequestRow
from distkv.wire.value_requests import SetValue

REPLICAS_MAX: Final = 1024
REPLICAS_S: Final = 10.0
"""How long a write waits for other nodes that does not say so."""

ReplicableWrite: TypeAlias = SetValue
"""Each write whose row `is_replicable`."""


@lean_value
class ReplicatedWrite:
    """A write that is answered when so many nodes hold it durably, this one included, or when its time is over."""

    write: ReplicableWrite
    replicas: int
    timeout_s: float

    @property
    def seq(self) -> int:
        return self.write.seq

    @property
    def fields(self) -> dict[str, object]:
        """What is asked besides the write."""
        return dict(zip(REPLICA_FIELDS, (self.replicas, self.timeout_s), strict=True))


def with_replicas(rows: Sequence[AnyRow[Found]]) -> Iterator[AnyRow[Found | ReplicatedWrite]]:
    """These rows, and one more for each write that may be answered when other nodes hold it."""
    for row in rows:
        if row.is_replicable:
            read = _replicated(row.read)
            yield RequestRow(row.action, row.type, read, row.write, row.form, row.when, is_replicable=True)
            yield RequestRow(row.action, ReplicatedWrite, read, None, ReplyForm.LATER, row.when)
        else:
            yield row


def _replicated(write: Read[Found]) -> Read[Found | ReplicatedWrite]:
    def read(seq: int, fields: Fields, frame: bytes) -> Found | ReplicatedWrite:
        if "replicas" not in fields:
            return write(seq, fields, frame)
        count = read_int(fields, "replicas", REPLICAS_MAX, 1)
        timeout_s = read_seconds(fields, "timeout", WAIT_S_MAX) if "timeout" in fields else REPLICAS_S
        rest = {name: value for name, value in fields.items() if name not in REPLICA_FIELDS}
        found = write(seq, rest, frame)
        if not isinstance(found, ReplicableWrite):
            raise TypeError(f"{type(found).__name__} is no write that can be replicated")
        return ReplicatedWrite(found, count, timeout_s)

    return read
