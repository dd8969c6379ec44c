"""When a watch begins, and that one which nobody holds any more is over, the same for each client.

Knows: what the server was asked by then, and how many connections it has.  Does not know what a watch is told.
"""

from __future__ import annotations

import gc

import anyio
import pytest

from distkv.client.blocking import connect
from distkv.errors import NotReadyError, UnreachableError
from distkv.wire.replies import encode_reply
from distkv.wire.subtrees import Watch
from tests.unit.client.answering_server import open_answering
from tests.unit.client.scripted_server import Last, Step, open_server, refusal
from tests.unit.client.shells import LOOPS, hosts, opened
from tests.unit.client.test_interrupts import answer

each_loop = pytest.mark.parametrize("loop", LOOPS)


def started(seq: int) -> bytes:
    return encode_reply(seq, {"state": "start"})


def broken(seq: int) -> bytes:
    return Last(started(seq)[:3])


def test_blocking_watch_has_begun_when_it_is_called() -> None:
    with open_server(started) as server, connect(hosts([server])) as client:
        changes = client.watch("w")
        assert [type(one) for one in server.requests] == [Watch]
        del changes


@each_loop
def test_async_watch_has_begun_when_it_is_entered(loop: str) -> None:
    async def main() -> None:
        async with opened(loop, server) as client, client.watch("w"):
            assert [type(one) for one in server.requests] == [Watch]

    with open_server(started) as server:
        anyio.run(main, backend=loop)


@pytest.mark.parametrize("step", [broken, lambda _: None], ids=["cut", "closed"])
def test_blocking_watch_begins_over_another_connection_when_one_breaks(step: Step) -> None:
    told: list[object] = []
    with open_server(step, started) as server, connect(hosts([server])) as client:
        changes = client.watch("w", on_disconnect=told.append, on_connect=lambda: told.append(True))
        assert len(told) == 2
        assert (told[1], len(server.requests)) == (True, 2)
        del changes


@each_loop
def test_async_watch_begins_over_another_connection_when_one_breaks(loop: str) -> None:
    async def main() -> None:
        async with opened(loop, server) as client, client.watch("w"):
            assert len(server.requests) == 2

    with open_server(broken, started) as server:
        anyio.run(main, backend=loop)


def test_blocking_watch_that_cannot_begin_in_time_is_refused() -> None:
    with (
        open_server() as server,
        connect(hosts([server]), reply_s=0.5) as client,
        pytest.raises(UnreachableError, match="closed the connection"),
    ):
        client.watch("w")


@each_loop
def test_async_watch_that_cannot_begin_in_time_is_refused(loop: str) -> None:
    async def main() -> None:
        async with opened(loop, server, reply_s=0.5) as client:
            with pytest.raises(UnreachableError, match="closed the connection"):
                async with client.watch("w"):
                    pytest.fail("it was entered")

    with open_server() as server:
        anyio.run(main, backend=loop)


def test_refusal_of_a_blocking_watch_is_raised_by_its_call() -> None:
    with (
        open_server(refusal(NotReadyError("soon"))) as server,
        connect(hosts([server])) as client,
        pytest.raises(NotReadyError, match="soon"),
    ):
        client.watch("w")


@each_loop
def test_refusal_of_an_async_watch_is_raised_on_entering(loop: str) -> None:
    async def main() -> None:
        async with opened(loop, server) as client:
            with pytest.raises(NotReadyError, match="soon"):
                async with client.watch("w"):
                    pytest.fail("it was entered")

    with open_server(refusal(NotReadyError("soon"))) as server:
        anyio.run(main, backend=loop)


# -- nobody holds it any more -------------------------------------------------------------------------------------


def test_blocking_result_that_is_left_behind_holds_no_connection() -> None:
    with open_answering(answer) as server, connect(server.host) as client:
        for _ in range(5):
            client.watch("w")
            client.watch_events("w")
            for _ in client.watch("w"):
                break
            for _ in client.get_tree("t"):
                break
        server.wait_open(1)


@each_loop
def test_async_result_that_is_left_behind_holds_no_connection(loop: str) -> None:
    async def main() -> None:
        async with opened(loop, server.host) as client:
            for _ in range(5):
                async for _ in client.watch("w"):
                    break
                async for _ in client.watch_events("w"):
                    break
                async for _ in client.get_tree("t"):
                    break
            await anyio.to_thread.run_sync(server.wait_open, 1)

    with open_answering(answer) as server:
        anyio.run(main, backend=loop)
        assert server.requests[Watch] == 10


@each_loop
def test_async_result_that_outlives_its_loop_disturbs_nobody(loop: str) -> None:
    async def main() -> object:
        async with opened(loop, server.host) as client:
            changes = client.watch("w")
            await anext(changes)
            return changes

    with open_answering(answer) as server:
        changes = anyio.run(main, backend=loop)
        server.wait_open(0)
        del changes  # which is collected here
        gc.collect()
