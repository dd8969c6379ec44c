"""Rows of a record, as tests of the soak need them."""

from __future__ import annotations

import attrs
from testing.record import Row

ROW = Row(
    began="2026-01-01T00:00:00Z",
    commit="0123456789",
    machine="2 x Fast",
    kind="sim",
    first=100,
    after=150,
    size=50,
    items={},
    count=50,
    wall_s=100.0,
    cpu_s=200.0,
    is_finished=True,
    failed=(),
)


def row(**changes: object) -> Row:
    """One like `ROW`, but for this."""
    return attrs.evolve(ROW, **changes)  # type: ignore[arg-type]
