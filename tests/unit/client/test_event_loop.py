"""How a task sleeps and is woken under trio and asyncio, and how a socket is read there without a task of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import anyio
import pytest

from distkv.client.event_loop import attend, home_loop, is_trio, plain_socket
from tests.unit.client.scripted_server import open_server
from tests.unit.client.shells import DEADLINE_S, LOOPS, running_loop

pytestmark = pytest.mark.anyio


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    one.setblocking(False)
    with one, other:
        yield one, other


async def test_loop_that_runs_is_told_and_its_clock_is_taken(anyio_backend: str) -> None:
    assert running_loop() == anyio_backend
    assert is_trio() == (anyio_backend == "trio")
    before = anyio.current_time()
    assert before <= home_loop().clock() <= anyio.current_time()


async def test_sleep_ends_when_another_task_wakes_it() -> None:
    sleeper = home_loop().new_sleeper()
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleeper.sleep)
            await anyio.wait_all_tasks_blocked()
            sleeper.wake()
            sleeper.wake()


async def test_sleep_that_was_ended_before_it_began_ends_at_once() -> None:
    sleeper = home_loop().new_sleeper()
    sleeper.wake()
    with anyio.fail_after(DEADLINE_S):
        await sleeper.sleep()


async def test_wake_after_a_sleep_was_cancelled_does_nothing() -> None:
    sleeper = home_loop().new_sleeper()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await sleeper.sleep()
    sleeper.wake()
    assert scope.cancelled_caught


async def test_reader_is_called_for_all_that_comes_until_it_is_cancelled(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    one, other = ends
    seen: list[bytes] = []
    news = anyio.Event()

    def read() -> None:
        seen.append(one.recv(100))
        news.set()

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attend, one, read)
            for word in (b"a", b"b"):
                news = anyio.Event()
                other.sendall(word)
                await news.wait()
            tasks.cancel_scope.cancel()
        other.sendall(b"c")
        await anyio.wait_all_tasks_blocked()
    assert seen == [b"a", b"b"]


async def test_plain_socket_of_a_stream_is_of_the_same_connection_and_does_not_wait() -> None:
    with open_server(greeting=b"") as server:
        async with await anyio.connect_tcp(*server.address) as stream:
            line = plain_socket(stream)
            assert line.getpeername() == server.address
            with pytest.raises(BlockingIOError):
                line.recv(1)
            line.close()
