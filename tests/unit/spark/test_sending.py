"""Writes on their way: what another host is asked for, and what becomes of writes that a host refuses.

Knows: servers that say what the test wants.  Does not know a node's own answers (tests/spark/test_write.py).
"""

from __future__ import annotations

from contextlib import closing

import pytest

from distkv.client.addresses import Address
from distkv.errors import (
    BadValueError,
    BusyError,
    ChainMismatchError,
    FencedError,
    NoSpaceError,
    NotReadyError,
    RequestError,
    TooLargeError,
    UnreachableError,
)
from distkv.model.event import NodeName, Tick
from distkv.model.path import Path
from distkv.spark.source.row_writes import RowWrite
from distkv.spark.source.sending import Pace, TaskSender
from distkv.wire.value_requests import Batch
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import ScriptedServer, Step, close, open_server, refusal, reply

HEAD = (NodeName("a"), Tick(5))
LINK = {"node": "a", "tick": 9}


def write(name: str, value: object = 1, **fields: object) -> RowWrite:
    return RowWrite(Path([name]), pack_value(value), **fields)  # type: ignore[arg-type]


def done(*changed: bool) -> Step:
    """The reply to a batch of writes."""
    return reply({"results": [{"changed": one, "chain": LINK} for one in changed]})


def found(value: object | None = None, node: str = "a", tick: int = 9) -> Step:
    """The reply to a look at one path."""
    result = {} if value is None else {"value": value, "tock": 1, "time": 0.0, "chain": {"node": node, "tick": tick}}
    return reply({"results": [result]})


def asked(server: ScriptedServer) -> list[list[str]]:
    """Of each batch the paths."""
    return [[str(op.path) for op in request.ops] for request in server.requests if isinstance(request, Batch)]


def send(writes: list[RowWrite], *addresses: Address, wait_s: float = 0.0) -> TaskSender:
    with closing(TaskSender(addresses, wait_s=wait_s)) as sender:
        sender.carry_out(writes)
    return sender


@pytest.mark.parametrize(
    "failure",
    [refusal(BusyError("full")), refusal(NotReadyError("new")), refusal(NoSpaceError("disk")), close],
    ids=["busy", "not-ready", "no-space", "gone"],
)
def test_host_that_cannot_take_a_batch_is_passed_over(failure: Step) -> None:
    with open_server(failure) as bad, open_server(done(True, False)) as good:
        sender = send([write("x"), write("y")], bad.address, good.address)
    assert (sender.written, sender.same, asked(good)) == (1, 1, [["x", "y"]])


def test_host_that_took_a_batch_is_asked_first_next_time() -> None:
    with (
        open_server(refusal(BusyError("full")), done(True)) as bad,
        open_server(done(True), done(True)) as good,
        closing(TaskSender([bad.address, good.address], wait_s=0.0)) as sender,
    ):
        sender.carry_out([write("x")])
        sender.carry_out([write("y")])
    assert asked(good) == [["x"], ["y"]]


def test_host_is_tried_again_until_its_time_is_over() -> None:
    with open_server(refusal(BusyError("full")), refusal(BusyError("full")), done(True)) as server:
        assert send([write("x")], server.address, wait_s=60.0).written == 1


@pytest.mark.parametrize(
    ("failures", "error"),
    [((close, close), UnreachableError), ((close, refusal(NoSpaceError("disk is full"))), NoSpaceError)],
    ids=["gone", "one-is-full"],
)
def test_all_hosts_that_fail_are_named_in_one_line(failures: tuple[Step, Step], error: type[Exception]) -> None:
    with (
        open_server(failures[0]) as first,
        open_server(failures[1]) as second,
        pytest.raises(error, match="no host took the next rows for 0 s") as refused,
    ):
        send([write("x")], first.address, second.address)
    text = str(refused.value)
    assert all(f":{server.address[1]}: " in text for server in (first, second))  # type: ignore[index]
    assert "\n" not in text


def test_write_that_is_refused_ends_it_by_name() -> None:
    with (
        open_server(refusal(BadValueError("no").at_op(1))) as server,
        pytest.raises(RequestError, match="the row of y cannot be written: op 1: no"),
    ):
        send([write("x"), write("y")], server.address)


def test_write_to_a_path_that_a_token_holds_is_refused_by_name() -> None:
    with (
        open_server(refusal(FencedError("a token").at_op(1)), found(7)) as server,
        pytest.raises(FencedError, match="the row of y cannot be written: op 1: a token"),
    ):
        send([write("x"), write("y")], server.address)


def test_write_to_a_path_that_a_token_holds_is_refused_also_where_it_has_a_condition_that_holds() -> None:
    with (
        open_server(refusal(FencedError("a token").at_op(0)), found(7, *HEAD)) as server,
        pytest.raises(FencedError, match="the row of x cannot be written"),
    ):
        send([write("x", head=HEAD)], server.address)


def test_value_that_a_path_under_a_token_has_already_was_made_before() -> None:
    with open_server(refusal(FencedError("a token").at_op(1)), found(1), done(True)) as server:
        sender = send([write("x"), write("y")], server.address)
    assert (sender.written, sender.same, sender.conflicts, asked(server)) == (1, 1, 0, [["x", "y"], ["y"], ["x"]])


def test_write_that_is_refused_may_be_left_out() -> None:
    refused: list[str] = []

    def note(write: RowWrite, error: RequestError) -> None:
        refused.append(f"{write.path} {error}")

    with (
        open_server(refusal(BadValueError("no").at_op(1)), done(True, True)) as server,
        closing(TaskSender([server.address], refuse=note, wait_s=0.0)) as sender,
    ):
        sender.carry_out([write("x"), write("y"), write("z")])
    assert (refused, asked(server), sender.written) == (["y op 1: no"], [["x", "y", "z"], ["x", "z"]], 2)


def test_batch_that_is_too_large_is_sent_in_halves_in_order() -> None:
    too_large = refusal(TooLargeError("too much"))
    with open_server(too_large, too_large, done(True), done(True), done(True, True)) as server:
        assert send([write(name) for name in "wxyz"], server.address).written == 4
    assert asked(server) == [["w", "x", "y", "z"], ["w", "x"], ["w"], ["x"], ["y", "z"]]


def test_conditions_that_do_not_hold_are_told_apart_by_what_is_there() -> None:
    """w was written by us before, x was changed by somebody, y is as it was, z is there and should not be."""
    writes = [write("w", head=HEAD), write("x", head=HEAD), write("y", head=HEAD), write("z", new=True)]
    looks = (found(1), found(2), found(7, tick=5), found(3))
    with open_server(refusal(ChainMismatchError("no").at_op(0)), *looks, done(True)) as server:
        sender = send(writes, server.address)
    assert (sender.written, sender.same, sender.conflicts, sender.first_conflict) == (1, 1, 2, Path(["x"]))
    assert asked(server)[-1] == ["y"]


def test_deletion_that_took_place_before_is_done() -> None:
    gone = RowWrite(Path(["x"]), None, head=HEAD)
    with open_server(refusal(ChainMismatchError("no").at_op(0)), found()) as server:
        sender = send([gone], server.address)
    assert (sender.same, sender.conflicts) == (1, 0)


def test_condition_that_holds_again_does_not_go_round_for_ever() -> None:
    with open_server(refusal(ChainMismatchError("no").at_op(0)), found(7, tick=5)) as server:
        assert send([write("x", head=HEAD)], server.address).conflicts == 1


def test_pace_leaves_so_much_time_that_the_rate_holds() -> None:
    clock = [10.0]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    pace = Pace(100, lambda: clock[0], sleep)
    pace.wait(50)  # at once
    pace.wait(50)
    clock[0] += 2.0  # an answer that took long
    pace.wait(50)
    pace.wait(1)
    assert pauses == pytest.approx([0.5, 0.5])
