"""Our clients of the activity network and one real server: under trio, under asyncio, and without a loop.

Knows: what users call.  Does not know what goes over the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio.to_thread
import pytest
import trio

import distkv
from tests.process.ports import free_port
from tests.process.servers import Server, Servers

Run = Callable[[Callable[[], Awaitable[None]]], None]


def _under_asyncio(main: Callable[[], Any]) -> None:
    asyncio.run(main())


@pytest.fixture
def server(servers: Servers) -> Server:
    """One node, whose listener stays where it is."""
    found = servers.add("a")
    found.start("--init", "1", "--transport", "solo", "--activity", f"127.0.0.1:{free_port()}").wait_ready()
    return found


def _start_anew(server: Server) -> None:
    server.kill()
    server.start("--transport", "solo", "--activity", f"127.0.0.1:{free_port()}").wait_ready()


def _numbers(news: list[distkv.ActivityMessage | distkv.ActivityMissed | None]) -> list[object]:
    return [one.activity["x"] for one in news if isinstance(one, distkv.ActivityMessage)]


@pytest.mark.parametrize("run", [trio.run, _under_asyncio])
def test_async_client_sends_and_is_told(server: Server, run: Run) -> None:
    async def main() -> None:
        async with (
            distkv.open_activity("127.0.0.1", server.port) as one,
            distkv.open_activity("127.0.0.1", server.port) as other,
        ):
            for x in range(3):
                await one.send({"x": x})
            assert _numbers([await other.receive(30) for _ in range(3)]) == [0, 1, 2]
            assert _numbers([await one.receive() for _ in range(3)]) == [0, 1, 2]
            assert await one.receive() is None

    run(main)


@pytest.mark.parametrize("run", [trio.run, _under_asyncio])
def test_async_client_goes_on_when_the_node_is_there_again(server: Server, run: Run) -> None:
    async def main() -> None:
        async with distkv.open_activity("127.0.0.1", server.port) as one:
            await one.send({"x": 1})
            await anyio.to_thread.run_sync(_start_anew, server)  # meanwhile the client sees it
            await one.send({"x": 2})
            assert _numbers([await one.receive(30) for _ in range(2)]) == [1, 2]

    run(main)


def test_blocking_client_goes_on_when_the_node_is_there_again(server: Server) -> None:
    with distkv.connect_activity("127.0.0.1", server.port) as one:
        one.send({"x": 1})
        _start_anew(server)
        one.send({"x": 2})
        assert _numbers([one.receive(30) for _ in range(2)]) == [1, 2]


def test_client_whose_node_is_gone_is_told_so(server: Server) -> None:
    with distkv.connect_activity("127.0.0.1", server.port, connect_s=1, reply_s=1) as one:
        server.kill()
        with pytest.raises((distkv.Unreachable, distkv.SendUnknown)):
            one.send({"x": 1})
        with pytest.raises(distkv.Unreachable):
            one.receive(60)


def test_who_waits_is_told_when_the_client_is_closed(server: Server) -> None:
    one = distkv.connect_activity("127.0.0.1", server.port)
    one.close()
    one.close()
    with pytest.raises(distkv.Unreachable, match="closed"):
        one.receive(60)


def test_node_without_a_listener_is_named(servers: Servers) -> None:
    server = servers.start("plain", "--init", "1", "--transport", "solo")
    server.wait_ready()
    with pytest.raises(distkv.Disabled, match=r"activity\.listen"):
        distkv.connect_activity("127.0.0.1", server.port)


def test_who_cannot_log_in_is_told_why(server: Server) -> None:
    with pytest.raises(distkv.DistkvError):
        distkv.connect_activity("127.0.0.1", server.port, "aaron", "s", reply_s=1)
