"""A client that one task opens and another one closes, as the start-up and shutdown hooks of web frameworks do.

Knows: which task does what, under trio and under asyncio.  What many tasks ask at once is in `test_async`.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import anyio
import pytest

from distkv.client.async_client import AsyncClient, open_client
from distkv.client.background import BackgroundTask
from distkv.errors import UnreachableError
from distkv.wire.replies import encode_reply, encode_start
from tests.unit.client.scripted_server import ScriptedServer, Step, open_server, reply, silence
from tests.unit.client.shells import DEADLINE_S, LOOPS, hosts, running_loop

pytestmark = pytest.mark.anyio


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


async def in_a_task(call: Callable[[], Awaitable[object]]) -> object:
    """What a task of its own returns, which is over then."""
    found: list[object] = []

    async def run() -> None:
        found.append(await call())

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
    return found[0]


async def start(server: ScriptedServer) -> AsyncClient:
    """A client that a task opened which is over."""
    client = await in_a_task(lambda: _open(server))
    assert isinstance(client, AsyncClient)
    return client


async def _open(server: ScriptedServer) -> AsyncClient:
    return await open_client(hosts([server]))


# -- opening and closing ------------------------------------------------------------------------------------------


async def test_client_is_opened_used_and_closed_by_three_tasks(anyio_backend: str) -> None:
    assert running_loop() == anyio_backend
    with open_server(reply({"state": "ready"})) as server:
        client = await start(server)
        assert await in_a_task(client.state) == {"state": "ready"}
        await in_a_task(client.aclose)
        with pytest.raises(UnreachableError, match="connect anew"):
            await client.ping()
        assert server.closed.acquire(timeout=DEADLINE_S)


async def test_exit_stack_may_be_left_by_another_task() -> None:
    stack = AsyncExitStack()
    with open_server(reply({"state": "ready"})) as server:
        client = await in_a_task(lambda: stack.enter_async_context(open_client(hosts([server]))))
        assert isinstance(client, AsyncClient)
        assert await client.state() == {"state": "ready"}
        await in_a_task(stack.aclose)
        assert server.closed.acquire(timeout=DEADLINE_S)


async def test_client_may_be_closed_twice() -> None:
    with open_server() as server:
        client = await start(server)
        await client.aclose()
        await client.aclose()


async def test_client_is_closed_by_a_task_that_is_being_cancelled() -> None:
    with open_server() as server:
        client = await start(server)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.aclose()
        assert server.closed.acquire(timeout=DEADLINE_S)


async def test_task_that_is_cancelled_while_it_connects_leaves_no_connection() -> None:
    with open_server(greeting=b"") as server, anyio.move_on_after(0.05) as scope:
        await _open(server)
    assert scope.cancelled_caught


@pytest.mark.parametrize("loop", LOOPS)
def test_program_ends_although_its_client_was_never_closed(loop: str) -> None:
    async def main() -> None:
        assert running_loop() == loop
        await (await _open(server)).ping()

    with open_server(reply({})) as server:
        anyio.run(main, backend=loop)
        assert server.closed.acquire(timeout=DEADLINE_S)


def started(seq: int) -> bytes:
    return encode_start(seq)


def watched(seq: int) -> bytes:
    return encode_reply(seq, {"state": "start"})


@pytest.mark.parametrize(
    ("step", "call"),
    [
        (silence, lambda client: client.ping()),
        (watched, lambda client: client.watch("a").__anext__()),
        (started, lambda client: client.get_tree("a").__anext__()),
    ],
    ids=["reply", "watch", "tree"],
)
async def test_close_ends_what_another_task_waits_for(
    step: Step, call: Callable[[AsyncClient], Awaitable[object]]
) -> None:
    failures: list[UnreachableError] = []
    is_asked = threading.Event()

    def answer(seq: int) -> bytes | None:
        is_asked.set()
        return step(seq)

    async def wait(client: AsyncClient) -> None:
        with pytest.raises(UnreachableError, match="connect anew") as caught:
            await call(client)
        failures.append(caught.value)

    with open_server(answer) as server, anyio.fail_after(DEADLINE_S):
        client = await start(server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, client)
            await anyio.to_thread.run_sync(is_asked.wait, DEADLINE_S)
            await client.aclose()
    assert len(failures) == 1


# -- tasks that belong to no other --------------------------------------------------------------------------------


async def test_what_the_work_raised_is_raised_to_who_ends_it() -> None:
    async def work() -> None:
        raise KeyError("mine")

    with anyio.fail_after(DEADLINE_S):
        task = BackgroundTask(work)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(KeyError, match="mine"):
            await task.end()
        await task.end()


async def test_work_is_over_when_end_returns() -> None:
    happened: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            happened.append("over")

    with anyio.fail_after(DEADLINE_S):
        task = BackgroundTask(work)
        await anyio.wait_all_tasks_blocked()
        await task.end()
    assert happened == ["over"]


async def test_work_that_is_ended_before_it_began_does_nothing() -> None:
    happened: list[str] = []

    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        happened.append("begun")

    await BackgroundTask(work).end()
    assert happened == []
