"""Tokens of an async client that are left in another order, or by another task, than they were entered.

Knows: exit stacks, tasks, and a server that grants all.  Does not know who else wants a token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import permutations

import anyio
import anyio.lowlevel
import pytest

import distkv
from distkv.client.async_client import AsyncClient
from distkv.wire.replies import encode_reply
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenData, TokenKeep, TokenOpen
from tests.unit.client.answering_server import AnsweringServer, open_answering
from tests.unit.client.shells import LOOPS, opened
from tests.unit.client.test_interrupts import answer

each_loop = pytest.mark.parametrize("loop", LOOPS)

NAMES = ("a", "b", "c")
ORDERS = [*permutations(NAMES)]


def expiring(request: object) -> bytes:
    """The sessions live for two seconds, and nothing keeps them alive."""
    match request:
        case TokenOpen(seq=seq):
            return encode_reply(seq, {"session": "5-abc", "ttl": 2.0, "version": 7})
        case TokenKeep() | TokenData():
            return b""
    return answer(request)


async def in_a_task(call: Callable[[], Awaitable[object]]) -> None:
    """Another task does it, which is over then."""

    async def run() -> None:
        await call()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)


def run(loop: str, main: Callable[[AsyncClient], Awaitable[None]]) -> AnsweringServer:
    """With a client of a server that grants all; every session must be closed in the end."""

    async def opened_main() -> None:
        async with opened(loop, server.host) as client:
            await main(client)

    with open_answering(answer) as server:
        anyio.run(opened_main, backend=loop)
    assert server.requests[TokenClose] == server.requests[TokenOpen] > 0
    return server


@each_loop
@pytest.mark.parametrize("order", ORDERS)
def test_tokens_of_one_task_are_left_in_any_order(loop: str, order: tuple[str, ...]) -> None:
    async def main(client: AsyncClient) -> None:
        stacks = {name: AsyncExitStack() for name in NAMES}
        with anyio.CancelScope():
            held = [await stack.enter_async_context(client.token(name)) for name, stack in stacks.items()]
            assert not any(token.is_lost for token in held)
            for name in order:
                await stacks[name].aclose()
                await anyio.lowlevel.checkpoint()
        assert all(token.is_lost for token in held)

    assert run(loop, main).requests[TokenAcquire] == 3


@each_loop
@pytest.mark.parametrize("order", ORDERS)
def test_tokens_are_awaited_and_given_up_by_a_task_each(loop: str, order: tuple[str, ...]) -> None:
    async def main(client: AsyncClient) -> None:
        held: dict[str, distkv.AsyncTokenHold] = {}

        async def hold(name: str) -> None:
            held[name] = await client.token(name)

        for name in NAMES:
            await in_a_task(partial(hold, name))
        for name in order:
            held[name].check()
            await in_a_task(held[name].aclose)
            await held[name].aclose()
            assert held[name].is_lost

    assert run(loop, main).requests[TokenAcquire] == 3


@each_loop
def test_loss_of_a_token_that_was_awaited_cancels_nobody(loop: str) -> None:
    async def main() -> None:
        async with opened(loop, server.host) as client:
            token = await client.token("a")
            with pytest.raises(distkv.TokenLost):
                await token.set_data(1)
            with pytest.raises(distkv.TokenLost):
                token.check()
            await token.aclose()

    with open_answering(expiring) as server:
        anyio.run(main, backend=loop)
        assert server.requests[TokenAcquire] == 1


@each_loop
def test_token_that_another_task_has_left_cancels_nobody(loop: str) -> None:
    async def main(client: AsyncClient) -> None:
        first, second = client.token("a"), client.token("b")
        await first.__aenter__()
        await in_a_task(lambda: first.__aexit__(None, None, None))
        async with second:
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        with anyio.CancelScope():
            await client.get("a")

    assert run(loop, main).requests[TokenAcquire] == 2


@each_loop
def test_loss_cancels_the_body_of_a_token_that_moved_outwards(loop: str) -> None:
    async def main(client: AsyncClient) -> None:
        outer = client.token("a")

        async def lose() -> None:
            async with client.token("b"):
                await outer.__aexit__(None, None, None)
                await anyio.sleep_forever()

        await outer.__aenter__()
        with pytest.raises(distkv.TokenLost, match="'b'"):
            await lose()

    async def opened_main() -> None:
        async with opened(loop, server.host) as client:
            await main(client)

    with open_answering(expiring) as server:
        anyio.run(opened_main, backend=loop)
        assert server.requests[TokenAcquire] == 2
