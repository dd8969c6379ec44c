"""Whose fault it is that a step failed.

Knows: the keeper of what is set aside, and a replica without a node around it.  What becomes of it in real servers is
shown by tests/process/test_aside.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from distkv.core.client_writes import LocalSet
from distkv.engine.asides import AsideKeeper
from distkv.errors import StorageFailedError
from distkv.model.path import Path
from distkv.wire.value_requests import SetValue
from tests.unit.core.test_decisions import A, replica_with

WRITE = LocalSet(SetValue(1, Path(["lamp"]), b"\x01"))


@pytest.mark.parametrize(
    ("error", "blamed"),
    [(KeyError("x"), ["set/lamp"]), (MemoryError(), []), (StorageFailedError("disk"), []),
     (ExceptionGroup("some", [MemoryError()]), [])],
    ids=["unforeseen", "memory", "disk", "memory in a group"],
)  # fmt: skip
def test_only_what_an_input_may_have_caused_is_its_fault(error: Exception, blamed: list[str]) -> None:
    """Else what is right would be refused after memory ran out twice (docs/protocol, ASIDE-1)."""
    keeper = AsideKeeper(replica_with(A), Counter())
    for _ in range(2):
        keeper.failed(WRITE, error)
    assert [one.id for one in keeper.machine.aside] == blamed
