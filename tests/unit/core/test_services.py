"""Services on one replica: who is handed what, what becomes of what they want, and when they begin anew.

Knows: a replica without a transport, and the echo.  Does not know disks, sockets or other nodes' replicas.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from distkv.core.ground.data import OLD
from distkv.core.ground.machine import ServiceGround, ServiceInput
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import (
    Answer,
    Input,
    NodeTold,
    Ready,
    ServiceAsked,
    ServiceTell,
    ServiceWithdrawn,
    Wake,
)
from distkv.core.registry import Registration, node_path
from distkv.core.replica import Replica
from distkv.core.tree_part import MakeTree
from distkv.errors import BadValueError, InternalError, NotFoundError, NotReadyError, RequestError
from distkv.model.event import Event, Kind, NodeName, Tock, first_tick
from distkv.sim.told import core_settings
from distkv.wire.message import DataRecord, EventRecord, Record, ResetRecord, SlotRecord, StaleRecord, Start
from tests.proof.core.echo.machine import ECHO, Echo
from tests.proof.wire.echo import EchoKeep, EchoKept, EchoNamed, EchoRows

A, B = NodeName("a"), NodeName("b")
WALL = 1.7e9
ASLEEP_MS = 100_000


def made(
    echo: Echo, records: Iterable[Record] = (), *, tree: MakeTree | None = None, **more: Any
) -> tuple[Replica, Ready]:
    """The replica of node `a`, or of another one, begun."""
    init = {} if records else {"init_value": b"\xc0"}
    told = {"node": A, "addr": "a:1", "alone": True, "network_id": b"12345678", **init, **more}
    settings = core_settings(start=Start(WALL, 1), **told)
    replica = Replica(settings, random.Random(1), {ECHO: echo}, tree)
    for record in records:
        replica.store.replay(record)
    return replica, replica.begin(0, WALL)


def serving() -> tuple[Replica, Echo, list[Record]]:
    """A node that serves clients, where `b` is registered, too; and its log."""
    _, ready = made(Echo())
    registration = Registration(7, "b:1", WALL).packed()
    by_b = Event(node_path(B), Kind.SET, registration, ((B, first_tick(7)),), Tock(5), WALL)
    echo, records = Echo(), [*ready.records, EventRecord(by_b, WALL)]
    replica, ready = made(echo, records)
    assert replica.is_serving
    return replica, echo, [*records, *ready.records]


def step(replica: Replica, what: Input, now_ms: int = 1000, boot_ms: int | None = None) -> Ready:
    return replica.step(now_ms, WALL, what, boot_ms)


def slot(key: str, value: bytes | None) -> SlotRecord:
    return SlotRecord(ECHO, key, value)


def asked(id: int = 1, **request: object) -> ServiceAsked:
    return ServiceAsked(ECHO, id, request)


# -- what becomes of what it wants


def test_question_is_kept_and_told_in_one_step_and_answered_in_a_later_one() -> None:
    replica, _, _ = serving()
    ready = step(replica, asked(1, to="b"))
    assert ready.records == [slot("count", b"1"), slot("asked", b"1")]
    assert ready.tells == [ServiceTell(B, ECHO, b"ask 1")]
    assert ready.answers == []
    ready = step(replica, NodeTold(B, 7, ECHO, b"echo 1"))
    assert ready.records == [slot("echo of b", b"1")]
    assert ready.answers == [Answer(1, {"count": 1, "by": B})]


def test_question_of_another_node_is_kept_and_told_back() -> None:
    replica, _, _ = serving()
    ready = step(replica, NodeTold(B, 7, ECHO, b"ask 5"))
    assert (ready.records, ready.tells) == ([slot("ask of b", b"5")], [ServiceTell(B, ECHO, b"echo 5")])


def test_refusal_of_a_machine_is_the_answer() -> None:
    replica, _, _ = serving()
    (answer,) = step(replica, asked(1)).answers
    assert isinstance(answer.result, NotFoundError)


def test_answer_to_a_request_that_was_withdrawn_is_given_to_nobody() -> None:
    replica, echo, _ = serving()
    step(replica, asked(1, to="b"))
    step(replica, ServiceWithdrawn(ECHO, 1))
    assert step(replica, NodeTold(B, 7, ECHO, b"echo 1")).answers == []
    assert (1000, ServiceWithdrawn(ECHO, 1)) in echo.inputs


def test_request_that_was_answered_is_not_withdrawn() -> None:
    replica, echo, _ = serving()
    step(replica, asked(1))
    step(replica, ServiceWithdrawn(ECHO, 1))
    assert echo.inputs == [(1000, asked(1))]


# -- who is not heard


def test_request_to_a_service_that_is_not_there_is_refused() -> None:
    replica, _, _ = serving()
    (answer,) = step(replica, ServiceAsked("other", 1, {})).answers
    assert isinstance(answer.result, RequestError)
    assert "has no service other" in str(answer.result)


@pytest.mark.parametrize(
    ("what", "note"),
    [
        (NodeTold(B, 7, "other", b"ask 1"), "service_unknown"),
        (NodeTold(NodeName("c"), 7, ECHO, b"ask 1"), "service_stranger"),
        (NodeTold(A, 0, ECHO, b"ask 1"), "service_stranger"),
    ],
)
def test_what_nobody_is_there_for_or_no_node_said_is_dropped_and_noted(what: NodeTold, note: str) -> None:
    replica, echo, _ = serving()
    ready = step(replica, what)
    assert [one.id for one in ready.notes] == [note]
    assert (ready.records, ready.tells, echo.inputs) == ([], [], [])


def test_node_that_does_not_serve_has_no_services_yet() -> None:
    _, _, records = serving()
    echo = Echo()
    replica, _ = made(echo, records, alone=False)  # it has to hear what others know of its life
    assert not replica.is_serving
    ready = step(replica, asked(1, to="b"))
    assert [type(answer.result) for answer in ready.answers] == [NotReadyError]
    assert [note.id for note in step(replica, NodeTold(B, 7, ECHO, b"ask 1")).notes] == ["service_not_ready"]
    assert (echo.restored, echo.inputs) == ([], [])


# -- what is known after a start


def test_machine_begins_with_what_it_kept() -> None:
    replica, _, records = serving()
    records += step(replica, asked(1, to="b")).records
    echo = Echo()
    again, _ = made(echo, records)
    assert echo.restored == [{"count": b"1", "asked": b"1"}]
    assert again.store.slots == {ECHO: {"count": b"1", "asked": b"1"}}


def test_what_was_kept_before_a_reset_is_void() -> None:
    replica, _, records = serving()
    kept = step(replica, asked(1, to="b")).records
    echo = Echo()
    made(echo, [*kept, ResetRecord(), *records])
    assert echo.restored == [{}]


@pytest.mark.parametrize("restored", [False, True])
def test_what_a_restored_disk_kept_is_void_for_good(restored: bool) -> None:
    replica, _, records = serving()
    records += step(replica, asked(1, to="b")).records
    echo = Echo()
    _, ready = made(echo, records, restored=restored)
    assert [*ready.records].count(slot("count", None)) == restored
    if restored:
        assert echo.restored == [{}]
        last = Echo()
        made(last, [*records, *ready.records])
        assert last.restored == [{}]


def test_what_a_disk_kept_that_was_old_before_and_is_restored_now_is_void() -> None:
    replica, _, records = serving()
    kept = step(replica, asked(1, to="b")).records
    echo = Echo()
    made(echo, [*records, StaleRecord(True), *kept], restored=True)
    assert echo.restored == [{}]


def test_what_is_kept_after_an_old_disk_was_found_stays() -> None:
    replica, _, records = serving()
    records += step(replica, asked(1, to="b")).records
    again, ready = made(Echo(), records, restored=True)
    records += ready.records
    records += step(again, asked(1, to="b")).records
    assert again.store.slots[ECHO]["count"] == b"1"
    echo = Echo()
    made(echo, records)
    assert echo.restored == [{"count": b"1", "asked": b"1"}]


# -- time


def test_machine_is_woken_when_its_time_has_come_and_not_before() -> None:
    replica, _, _ = serving()
    step(replica, asked(1, wake_ms=5000))
    assert step(replica, Wake(), 4999).answers == []
    assert step(replica, Wake(), 5000).answers == [Answer(1, {"late_ms": 0})]


def test_any_input_wakes_a_machine_that_is_due() -> None:
    replica, _, _ = serving()
    step(replica, asked(1, wake_ms=5000))
    assert step(replica, asked(2), 6000).answers[-1] == Answer(1, {"late_ms": 1000})


def test_node_wants_to_be_woken_for_it_by_its_monotonic_clock() -> None:
    replica, _, _ = serving()
    step(replica, asked(1, wake_ms=ASLEEP_MS + 1500), 1000, ASLEEP_MS + 1000)
    assert replica.wake_ms() == 1500


def test_machine_sees_the_time_that_passed_while_the_host_slept() -> None:
    replica, _, _ = serving()
    step(replica, asked(1, wake_ms=5000), 1000)
    ready = step(replica, Wake(), 1001, ASLEEP_MS)
    assert ready.answers == [Answer(1, {"late_ms": ASLEEP_MS - 5000})]


def test_without_a_boot_time_the_monotonic_clock_is_taken() -> None:
    replica, echo, _ = serving()
    step(replica, asked(1), 1234)
    assert [at_ms for at_ms, _ in echo.inputs] == [1234]


# -- rows of data


def row(key: str, value: bytes | None) -> DataRecord:
    return DataRecord(ECHO, key, value)


def test_row_is_kept_with_the_step_and_read_from_the_next_one_on() -> None:
    replica, echo, records = serving()
    ready = step(replica, ServiceAsked(ECHO, 1, EchoKeep(1, "x", "one")))
    assert (ready.records, ready.answers) == ([row("x", b"one")], [Answer(1, EchoNamed("x", "one"))])
    (answer,) = step(replica, ServiceAsked(ECHO, 2, EchoRows(2, ""))).answers
    assert answer.result == EchoKept({"x": "one"}, (), False, False)
    again = Echo()
    made(again, [*records, *ready.records])
    assert again.doubts == [(set(), False, False)]
    assert again.ground is not None
    assert [*again.ground.data.items()] == [("x", b"one")]
    assert echo.ground is not None
    assert again.ground.data.get("x") == echo.ground.data.get("x")


def test_row_that_is_refused_ends_no_service() -> None:
    replica, _, _ = serving()
    ready = step(replica, ServiceAsked(ECHO, 1, EchoKeep(1, "", "one")))
    assert ready.records == []
    assert isinstance(ready.answers[0].result, BadValueError)
    assert replica.failed_services == set()


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("is_reset", [False, True])
def test_rows_stay_on_an_old_disk_and_over_a_download_and_the_service_is_told_of_the_disk(
    restored: bool, is_reset: bool
) -> None:
    _, _, records = serving()
    records += [row("x", b"one"), slot("count", b"7"), *([ResetRecord(), *records] if is_reset else [])]
    echo = Echo()
    replica, ready = made(echo, records, restored=restored)
    if restored:
        assert row(OLD, b"") in ready.records
    assert replica.store.data.find(ECHO, "x") == b"one"
    assert echo.doubts == [(set(), False, restored)]
    assert (not echo.restored[-1]) is (restored or is_reset)
    records += ready.records
    again = Echo()
    replica, ready = made(again, records)
    assert again.doubts == [(set(), False, restored)], "it is told at each start"
    records += [*ready.records, *step(replica, ServiceAsked(ECHO, 1, EchoRows(1, "", make_good=True))).records]
    last = Echo()
    replica, _ = made(last, records)
    assert last.doubts == [(set(), False, False)]
    assert replica.store.data.find(ECHO, "x") == b"one"


# -- what fails


class Fragile(Echo):
    """Fails when it begins, before it wants anything, or when it has wanted all."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:
        if self.at == "begin":
            raise KeyError("a slot that nobody can read")
        super().begin(turn, ground)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        if self.at == "step":
            raise KeyError("at once")
        super().step(turn, what)
        assert turn.effects
        raise KeyError("when it had wanted all")


@pytest.mark.parametrize("at", ["begin", "step", "end of a step"])
def test_service_that_fails_is_off_and_its_node_goes_on(at: str) -> None:
    fragile = Fragile(at)
    replica, _ = made(fragile)
    ready = step(replica, asked(1, to="b"))
    assert (ready.records, ready.tells) == ([], []), "nothing of the step that failed leaves"
    assert [(answer.id, type(answer.result)) for answer in ready.answers] == [(1, InternalError)]
    assert "the service echo of a has failed, and is off" in str(ready.answers[0].result)
    assert (replica.failed_services, replica.is_serving) == ({ECHO}, True)
    assert replica.store.slots == {}
    again = step(replica, asked(2, to="b"))
    assert [type(answer.result) for answer in again.answers] == [InternalError]
    assert step(replica, NodeTold(B, 7, ECHO, b"ask 1")).tells == []
    assert replica.wake_ms() is None or step(replica, Wake(True), 99_000).answers == []


def test_service_that_failed_begins_with_what_is_on_the_disk() -> None:
    fragile, (_, _, records) = Fragile("step"), serving()
    replica, _ = made(fragile, [*records, SlotRecord(ECHO, "count", b"7")])
    assert step(replica, asked(1, to="b")).records == []
    echo = Echo()
    made(echo, [*records, SlotRecord(ECHO, "count", b"7")])
    assert echo.restored == [{"count": b"7"}]
