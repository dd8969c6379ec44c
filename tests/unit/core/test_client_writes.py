"""What every write of a client has in common, whatever it writes."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from distkv.core.client_writes import (
    ClientWrite,
    LocalBatch,
    LocalDecision,
    LocalSet,
    ReplaceChange,
    RetireNode,
)
from distkv.core.ready import CoreSettings, TransportUp
from distkv.core.replica import Replica
from distkv.errors import NotReadyError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.decisions import Dismiss
from distkv.wire.message import Start
from distkv.wire.value_requests import SetValue

LINK = (NodeName("b"), Tick(7))
WRITES: list[ClientWrite] = [
    LocalSet(SetValue(1, Path(["a"]), b"\x01")),
    LocalBatch((SetValue(0, Path(["a"]), b"\x01"),)),
    RetireNode(NodeName("b"), force=True),
    LocalDecision(Dismiss(1, LINK)),
    ReplaceChange(Path(["a"]), LINK, Tock(1)),
]


def test_there_is_an_example_of_each() -> None:
    assert {type(write) for write in WRITES} == {*get_args(ClientWrite)}


@pytest.mark.parametrize("write", WRITES, ids=lambda write: type(write).__name__)
def test_who_gives_a_write_sees_to_its_commit(write: ClientWrite) -> None:
    assert write.is_awaited


@pytest.mark.parametrize("write", WRITES, ids=lambda write: type(write).__name__)
def test_node_that_is_not_ready_refuses_a_write_and_changes_nothing(write: ClientWrite) -> None:
    replica = Replica(CoreSettings(NodeName("me"), "me:1", Start(1.7e9, 1)), Random(0))
    replica.begin(0, 1.7e9)
    ready = replica.step(1, 1.7e9, write)
    assert isinstance(ready.reply, NotReadyError)
    assert str(ready.reply) == str(replica.not_ready())
    assert (ready.records, ready.changes) == ([], [])


def test_what_nobody_waits_for_wakes_the_committer() -> None:
    assert not TransportUp().is_awaited


@pytest.mark.parametrize(("value", "ttl", "moves"), [(b"\x01", None, False), (b"\x01", 2.5, True), (None, None, True)])
def test_set_moves_a_timer_when_something_becomes_due_by_it(
    value: bytes | None, ttl: float | None, moves: bool
) -> None:
    assert LocalSet(SetValue(1, Path(["a"]), value, ttl=ttl)).moves_timers is moves
