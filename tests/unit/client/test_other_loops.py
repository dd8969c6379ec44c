"""An async client that is used in another event loop than its own.

Knows: threads with loops of their own, and loops of one thread after another.  Does not know what a client does in its
own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest

from distkv.client.async_client import AsyncClient, open_client
from distkv.errors import DistkvError, RequestError, UnreachableError
from tests.unit.client.answering_server import AnsweringServer, open_answering
from tests.unit.client.shells import LOOPS, opened
from tests.unit.client.test_interrupts import answer

each_loop = pytest.mark.parametrize("loop", LOOPS)
each_other = pytest.mark.parametrize("other", LOOPS)

Call = Callable[[AsyncClient], Awaitable[object]]


async def enter_token(client: AsyncClient) -> None:
    async with client.token("job"):
        pass


async def enter_watch(client: AsyncClient) -> None:
    async with client.watch("w"):
        pass


CALLS: dict[str, Call] = {
    "get": lambda client: client.get("a"),
    "set": lambda client: client.set("a", 1),
    "close": lambda client: client.aclose(),
    "tree": lambda client: anext(client.get_tree("t")),
    "watch": lambda client: anext(client.watch("w")),
    "entered watch": enter_watch,
    "token": enter_token,
}


async def failure(call: Call, client: AsyncClient) -> object:
    """What it raises."""
    try:
        return await call(client)
    except DistkvError as error:
        return error


@each_loop
@each_other
@pytest.mark.parametrize("name", CALLS)
def test_call_from_the_loop_of_another_thread_is_refused(loop: str, other: str, name: str) -> None:
    async def main() -> object:
        async with opened(loop, server.host) as client:
            found = await anyio.to_thread.run_sync(lambda: anyio.run(failure, CALLS[name], client, backend=other))
            entry = await client.get("own")
            assert entry is not None
            assert entry.value == "own"
            return found

    with open_answering(answer) as server:
        found = anyio.run(main, backend=loop)
    assert type(found) is RequestError
    assert "open_client" in str(found)


@each_loop
@each_other
def test_what_was_begun_in_its_own_loop_is_refused_in_another_and_goes_on(loop: str, other: str) -> None:
    async def main() -> None:
        async with opened(loop, server.host) as client, client.watch("w") as changes, client.token("job") as token:
            calls: list[Call] = [
                lambda _: anext(changes),
                lambda _: changes.aclose(),
                lambda _: token.set_data(1),
                lambda _: token.__aexit__(None, None, None),
            ]
            for call in calls:
                found = await anyio.to_thread.run_sync(partial(anyio.run, failure, call, client, backend=other))
                assert type(found) is RequestError
            await token.set_data(1)
            await anext(changes)

    with open_answering(answer) as server:
        anyio.run(main, backend=loop)


async def left_open(server: AnsweringServer) -> AsyncClient:
    client = await open_client(server.host)
    await client.get("own")
    return client


@each_loop
@each_other
def test_client_of_a_loop_that_is_over_is_closed(loop: str, other: str) -> None:
    with open_answering(answer) as server:
        client = anyio.run(left_open, server, backend=loop)
        found = anyio.run(failure, CALLS["get"], client, backend=other)
        assert type(found) is UnreachableError
        anyio.run(client.aclose, backend=other)


def test_client_of_a_loop_of_the_same_thread_that_stands_still_is_refused() -> None:
    with open_answering(answer) as server:
        first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
        client = first.run_until_complete(left_open(server))
        for name in ("get", "close"):
            assert type(second.run_until_complete(failure(CALLS[name], client))) is RequestError
        first.run_until_complete(client.aclose())
        for loop in (first, second):
            loop.close()
