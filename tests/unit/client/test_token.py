"""`client.token(...)` of all clients against a server that says what a test tells it to.

Knows: what users see on entering, losing and leaving.  Does not know how a session is kept alive (`test_holding`).
"""

from __future__ import annotations

import anyio
import pytest

import distkv
from distkv.errors import DisabledError
from distkv.wire.token_errors import HeldError
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenData
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import ScriptedServer, Step, open_server, refusal, reply, silence
from tests.unit.client.shells import LOOPS, hosts, opened

OPENED = reply({"session": "5-abc", "ttl": 15.0, "version": 7})
GRANTED = reply(
    {"token": "job", "epoch": 2, "counter": 3, "shared": False, "version": 7, "data": {"x": 1}}
)
CLOSED = reply({"session": "5-abc"})
SCRIPT = (OPENED, silence, GRANTED, CLOSED)
"""The keep-alive is answered by silence: it waits for news."""

SHORT = (reply({"session": "5-abc", "ttl": 0.5, "version": 7}), silence, GRANTED, *[silence] * 20)
"""Nothing is confirmed, until the session is over by the client's own clock."""


def sent(server: ScriptedServer, kind: type) -> list[object]:
    return [one for one in server.requests if type(one) is kind]


def lost_after_grant() -> list[Step]:
    """The token is granted; instead of the next request, which sets data, the keep-alive is answered: it was taken."""
    keep = reply({"version": 7, "ttl": 15.0, "lost": ["job"]})
    return [OPENED, silence, GRANTED, lambda _: keep(2), silence, CLOSED, CLOSED]


# -- blocking -----------------------------------------------------------------------------------------------------


def test_block_has_fence_data_and_session() -> None:
    with open_server(*SCRIPT) as server, distkv.connect(hosts([server])) as client, client.token("job") as token:
        assert (str(token.fence), token.data, token.session, token.is_lost) == ("job:2.3", {"x": 1}, "5-abc", False)
        token.check()
        assert 0 < token.left_s <= 15


def test_leaving_the_block_closes_the_session() -> None:
    with open_server(*SCRIPT) as server, distkv.connect(hosts([server])) as client:
        with client.token("job") as token:
            pass
        assert token.is_lost
    assert len(sent(server, TokenClose)) == 1


def test_arguments_are_sent() -> None:
    with (
        open_server(*SCRIPT) as server,
        distkv.connect(hosts([server])) as client,
        client.token("job", shared=True, data=5, wait_s=3),
    ):
        pass
    (asked,) = sent(server, TokenAcquire)
    assert isinstance(asked, TokenAcquire)
    assert (asked.is_shared, asked.data, asked.wait_s) == (True, pack_value(5), 0.25)


def test_token_that_is_held_raises_on_entering() -> None:
    with (
        open_server(OPENED, silence, refusal(HeldError("held")), CLOSED, CLOSED) as server,
        distkv.connect(hosts([server])) as client,
        pytest.raises(distkv.Held),
        client.token("job"),
    ):
        pytest.fail("the block was entered")


def test_tokens_that_are_not_served_raise_on_entering() -> None:
    with (
        open_server(refusal(DisabledError("off"))) as server,
        distkv.connect(hosts([server])) as client,
        pytest.raises(distkv.Disabled),
        client.token("job", wait_s=10),
    ):
        pytest.fail("the block was entered")


def test_set_data_is_stored_and_shown() -> None:
    with (
        open_server(OPENED, silence, GRANTED, reply({}), CLOSED) as server,
        distkv.connect(hosts([server])) as client,
        client.token("job") as token,
    ):
        token.set_data([1])
        assert token.data == [1]
    (asked,) = sent(server, TokenData)
    assert isinstance(asked, TokenData)
    assert asked.data == pack_value([1])


def lose(client: distkv.Client, error: Exception | None = None) -> None:
    """Hold a token until it is lost, and then leave, or raise."""
    with client.token("job") as token:
        with pytest.raises(distkv.TokenLost):
            token.set_data(1)
        assert token.is_lost
        with pytest.raises(distkv.TokenLost):
            token.check()
        if error is not None:
            raise error


def test_lost_token_is_told_by_check_and_on_leaving() -> None:
    with (
        open_server(*lost_after_grant()) as server,
        distkv.connect(hosts([server])) as client,
        pytest.raises(distkv.TokenLost, match=r"job:2\.3"),
    ):
        lose(client)


def test_error_of_the_block_comes_before_the_loss() -> None:
    with (
        open_server(*lost_after_grant()) as server,
        distkv.connect(hosts([server])) as client,
        pytest.raises(ZeroDivisionError),
    ):
        lose(client, ZeroDivisionError())


@pytest.mark.parametrize(
    "arguments", [{"name": ""}, {"name": 5}, {"name": "a\n"}, {"shared": 1}, {"wait_s": -1}, {"ttl_s": "x"}]
)
def test_argument_that_is_none_is_refused_before_anything_is_sent(arguments: dict[str, object]) -> None:
    with open_server() as server, distkv.connect(hosts([server])) as client, pytest.raises(distkv.RequestError):
        client.token(**{"name": "job", **arguments})  # type: ignore[arg-type]
    assert server.connections == 1


def test_second_entry_is_refused() -> None:
    with (
        open_server(*SCRIPT) as server,
        distkv.connect(hosts([server])) as client,
        client.token("job") as token,
        pytest.raises(distkv.RequestError),
        token,
    ):
        pytest.fail("the block was entered")


# -- async --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_async_block_has_fence_and_data_and_closes_the_session(loop: str) -> None:
    async def work() -> None:
        with open_server(*SCRIPT) as server:
            async with opened(loop, server) as client, client.token("job") as token:
                assert (str(token.fence), token.data, token.session) == ("job:2.3", {"x": 1}, "5-abc")
        assert len(sent(server, TokenClose)) == 1

    anyio.run(work, backend=loop)


async def stay(client: distkv.AsyncClient, error: Exception | None = None) -> None:
    """Hold a token for ever, and raise when that ends."""
    async with client.token("job"):
        try:
            await anyio.sleep_forever()
        finally:
            if error is not None:
                raise error


@pytest.mark.parametrize("loop", LOOPS)
def test_loss_cancels_the_async_block_and_raises(loop: str) -> None:
    async def work() -> None:
        with open_server(*SHORT) as server:
            async with opened(loop, server) as client:
                with pytest.raises(distkv.TokenLost, match=r"job:2\.3"):
                    await stay(client)

    anyio.run(work, backend=loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_error_of_the_cancelled_async_block_comes_before_the_loss(loop: str) -> None:
    async def work() -> None:
        with open_server(*SHORT) as server:
            async with opened(loop, server) as client:
                with pytest.raises(ZeroDivisionError):
                    await stay(client, ZeroDivisionError())

    anyio.run(work, backend=loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_token_that_was_taken_is_told_by_set_data(loop: str) -> None:
    async def work() -> None:
        with open_server(*lost_after_grant()) as server:
            async with opened(loop, server) as client:
                with pytest.raises(distkv.TokenLost):
                    await set_one(client)

    async def set_one(client: distkv.AsyncClient) -> None:
        async with client.token("job") as token:
            await token.set_data(1)

    anyio.run(work, backend=loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_who_cancels_around_the_block_is_not_told_of_a_loss(loop: str) -> None:
    async def work() -> None:
        with open_server(*SCRIPT) as server:
            async with opened(loop, server) as client:
                with anyio.CancelScope() as scope:
                    async with client.token("job"):
                        scope.cancel()
                        await anyio.sleep_forever()
                assert scope.cancelled_caught
        assert len(sent(server, TokenClose)) == 1

    anyio.run(work, backend=loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_token_that_is_held_raises_on_entering_the_async_block(loop: str) -> None:
    async def work() -> None:
        with open_server(OPENED, silence, refusal(HeldError("held")), CLOSED, CLOSED) as server:
            async with opened(loop, server) as client:
                with pytest.raises(distkv.Held):
                    async with client.token("job"):
                        pytest.fail("the block was entered")

    anyio.run(work, backend=loop)
