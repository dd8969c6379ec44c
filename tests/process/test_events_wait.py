"""`events_wait` on a real node: a peer that waits is told of a write as soon as it is there.

Knows: the client libraries and one server.  What is answered when is tested in tests/node.
"""

from __future__ import annotations

import anyio
import pytest

import distkv
from tests.process.servers import Server, Servers
from tests.unit.client.shells import LOOPS, running_loop


@pytest.mark.parametrize("loop", LOOPS)
def test_wait_ends_with_a_write_on_the_same_connection(servers: Servers, loop: str) -> None:
    server = servers.start("a", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    anyio.run(_wait_and_write, server, loop, backend=loop)


async def _wait_and_write(server: Server, loop: str) -> None:
    assert running_loop() == loop
    held: list[object] = []

    async def wait(tick: object) -> None:
        found = await client.request("events_wait", {"nodes": {"a": tick}, "timeout": 20}, is_read=True)
        held.append(found["held"])

    with anyio.fail_after(30):
        async with distkv.open_client(server.address) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(wait, (await client.state())["tick"])
            while not await _wait_count(client):
                pass
            written = await client.set("x", 1)
    assert written.link is not None
    assert held == [{"a": [written.link[1]]}]


async def _wait_count(client: distkv.AsyncClient) -> object:
    counters = (await client.state())["counters"]
    assert isinstance(counters, dict)
    return counters["event_waits"]
