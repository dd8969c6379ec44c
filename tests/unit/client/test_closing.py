"""What closing a client does to everybody who waits in it, the same for each client.

Knows: threads and tasks that wait for tokens, data, connections and pauses; the others are in `test_threads` and
`test_tasks`.  Does not know real nodes.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest

from distkv.client.addresses import address_text
from distkv.client.async_client import AsyncClient
from distkv.client.blocking import Client, connect
from distkv.errors import BusyError, ConnectionLostError, DistkvError, UnreachableError
from distkv.wire.replies import encode_error, encode_hello, encode_reply
from distkv.wire.token_requests import TokenClose
from tests.unit.client.scripted_server import HELLO, Last, ScriptedServer, open_server, reply, silence
from tests.unit.client.shells import LOOPS, hosts, opened
from tests.unit.client.test_threads import WAIT_S, Other, heard

OPENED = reply({"session": "5-abc", "ttl": 15.0, "version": 7})
GRANTED = reply({"token": "job", "epoch": 2, "counter": 3, "shared": False, "version": 7, "data": None})
CLOSED = reply({"session": "5-abc"})

each_loop = pytest.mark.parametrize("loop", LOOPS)


def watched(seq: int) -> bytes:
    return Last(encode_reply(seq, {"state": "start"}))


# -- tokens -------------------------------------------------------------------------------------------------------


def hold(client: Client) -> None:
    with client.token("job", wait_s=1000):
        pytest.fail("the block was entered")


async def hold_async(client: AsyncClient) -> None:
    async with client.token("job", wait_s=1000):
        pytest.fail("the block was entered")


def assert_ended(failure: object, server: ScriptedServer) -> None:
    assert type(failure) is UnreachableError
    assert "connect anew" in str(failure)
    assert [type(one) for one in server.requests].count(TokenClose) == 1


def test_thread_that_waits_for_a_token_is_told_and_its_session_is_closed() -> None:
    wanted, is_asked = heard(silence)
    with open_server(OPENED, silence, wanted, CLOSED) as server, connect(hosts([server])) as client:
        other = Other(lambda: hold(client))
        assert is_asked.wait(WAIT_S)
        client.close()
        assert_ended(other.result(), server)


def test_token_that_was_made_before_is_not_entered_afterwards() -> None:
    with open_server(OPENED, silence, silence, CLOSED) as server, connect(hosts([server])) as client:
        token = client.token("job")
        client.close()
        with pytest.raises(UnreachableError, match="connect anew"):
            token.__enter__()


def test_token_that_is_held_is_kept_until_its_block_ends() -> None:
    with open_server(OPENED, silence, GRANTED, CLOSED) as server, connect(hosts([server])) as client:
        with client.token("job") as token:
            client.close()
            token.check()
            with pytest.raises(UnreachableError, match="connect anew"):
                token.set_data(1)
        assert [type(one) for one in server.requests].count(TokenClose) == 1


def test_thread_that_waits_for_its_data_does_not_know_what_became_of_it() -> None:
    stored, is_asked = heard(silence)
    with (
        open_server(OPENED, silence, GRANTED, stored, CLOSED) as server,
        connect(hosts([server])) as client,
        client.token("job") as token,
    ):
        other = Other(lambda: token.set_data(1))
        assert is_asked.wait(WAIT_S)
        client.close()
        assert isinstance(other.result(), ConnectionLostError)


async def _failure(call: Callable[[], Awaitable[object]], found: list[object]) -> None:
    try:
        await call()
    except DistkvError as error:
        found.append(error)


async def _closed_amid(
    loop: str, server: ScriptedServer, is_asked: threading.Event, call: Callable[[AsyncClient], Awaitable[object]]
) -> object:
    """What a call raises when its client is closed once the server was asked."""
    found: list[object] = []
    async with opened(loop, server) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(_failure, lambda: call(client), found)
        await anyio.to_thread.run_sync(is_asked.wait, WAIT_S)
        await client.aclose()
    return found[0]


@each_loop
def test_task_that_waits_for_a_token_is_told_and_its_session_is_closed(loop: str) -> None:
    wanted, is_asked = heard(silence)
    with open_server(OPENED, silence, wanted, CLOSED) as server:
        failure = anyio.run(_closed_amid, loop, server, is_asked, hold_async, backend=loop)
    assert_ended(failure, server)


@each_loop
def test_task_that_waits_for_its_data_does_not_know_what_became_of_it(loop: str) -> None:
    async def change(client: AsyncClient) -> None:
        async with client.token("job") as token:
            await token.set_data(1)

    stored, is_asked = heard(silence)
    with open_server(OPENED, silence, GRANTED, stored, CLOSED) as server:
        failure = anyio.run(_closed_amid, loop, server, is_asked, change, backend=loop)
    assert isinstance(failure, ConnectionLostError)


# -- connecting ---------------------------------------------------------------------------------------------------


def mute() -> tuple[socket.socket, threading.Event]:
    """A server that accepts and never greets, and an event when somebody came."""
    listener, came = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def accept() -> None:
        try:
            line, _ = listener.accept()
        except OSError:
            return
        came.set()
        with line:
            line.recv(1)  # until the client is gone

    threading.Thread(target=accept).start()
    return listener, came


@pytest.mark.parametrize(
    "call", [lambda client: list(client.get_tree("a")), lambda client: next(client.watch("a"))], ids=["tree", "watch"]
)
def test_thread_whose_line_waits_for_a_greeting_is_told(call: Callable[[Client], object]) -> None:
    listener, came = mute()
    full = encode_error(0, BusyError("full"))
    with listener, open_server(greetings=[encode_hello(HELLO)], greeting=full) as server:
        addresses = [*hosts([server]), address_text(listener.getsockname()[:2])]
        with connect(addresses, connect_s=1000) as client:
            other = Other(lambda: call(client))
            assert came.wait(WAIT_S)
            client.close()
            failure = other.result()
    assert isinstance(failure, UnreachableError)
    assert "connect anew" in str(failure)


def test_thread_that_connects_again_is_told() -> None:
    listener, came = mute()
    with (
        listener,
        open_server(
            lambda seq: Last(encode_reply(seq, {})),
            greetings=[encode_hello(HELLO)],
            greeting=encode_error(0, BusyError("full")),
        ) as server,
    ):
        addresses = [*hosts([server]), address_text(listener.getsockname()[:2])]
        with connect(addresses, connect_s=1000, reply_s=2000) as client:
            client.ping()
            other = Other(client.ping)
            assert came.wait(WAIT_S)
            client.close()
            failure = other.result()
    assert isinstance(failure, UnreachableError)
    assert "connect anew" in str(failure)


@each_loop
def test_task_whose_line_waits_for_a_greeting_is_told(loop: str) -> None:
    async def main() -> object:
        found: list[object] = []
        addresses = [*hosts([server]), address_text(listener.getsockname()[:2])]
        async with opened(loop, *addresses, connect_s=1000) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(_failure, lambda: client.watch("a").__anext__(), found)
            await anyio.to_thread.run_sync(came.wait, WAIT_S)
            await client.aclose()
        return found[0]

    listener, came = mute()
    full = encode_error(0, BusyError("full"))
    with listener, open_server(greetings=[encode_hello(HELLO)], greeting=full) as server:
        failure = anyio.run(main, backend=loop)
    assert isinstance(failure, UnreachableError)
    assert "connect anew" in str(failure)


@each_loop
def test_task_whose_watch_waits_for_its_node_to_come_back_is_told(loop: str) -> None:
    async def main() -> None:
        async with opened(loop, server) as client, anyio.create_task_group() as tasks:
            with pytest.raises(UnreachableError, match="connect anew"):
                await anext(client.watch("a", on_disconnect=lambda _: tasks.start_soon(client.aclose)))

    with open_server(
        watched, greetings=[encode_hello(HELLO)] * 2, greeting=encode_error(0, BusyError("full"))
    ) as server:
        anyio.run(main, backend=loop)
