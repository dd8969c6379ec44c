"""A request that is larger than the node takes, the same for each client.

Knows: what becomes of it, and of what is asked beside it.  Does not know the limits of real nodes.
"""

from __future__ import annotations

import anyio
import attrs
import pytest

from distkv.client.async_client import AsyncClient
from distkv.client.blocking import connect
from distkv.client.questions import Set
from distkv.errors import DistkvError, TooLargeError
from distkv.wire.replies import encode_hello, encode_reply
from tests.unit.client.scripted_server import HELLO, open_server
from tests.unit.client.shells import LOOPS, hosts, opened

LIMIT = 10_000
GREETING = encode_hello(attrs.evolve(HELLO, request_bytes=LIMIT))


def stored(seq: int) -> bytes:
    return encode_reply(seq, {"changed": True, "chain": {"node": "a", "tick": 1, "prev": None}, "tock": 1})


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("size", [LIMIT, 50 * LIMIT])
def test_large_async_write_takes_no_small_one_with_it(loop: str, size: int) -> None:
    found: dict[int, object] = {}

    async def write(client: AsyncClient, number: int) -> None:
        try:
            found[number] = (await client.set(f"a.{number}", bytes(size if number % 3 == 1 else 10))).changed
        except DistkvError as error:
            found[number] = type(error)

    async def main() -> None:
        async with opened(loop, server) as client, anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(write, client, number)

    with open_server(*[stored] * 8, greeting=GREETING, limit=LIMIT) as server:
        anyio.run(main, backend=loop)
        assert server.connections == 1
    assert found == {number: TooLargeError if number % 3 == 1 else True for number in range(12)}


def test_large_write_of_the_blocking_client_is_refused_before_it_is_sent() -> None:
    with (
        open_server(stored, greeting=GREETING, limit=LIMIT) as server,
        connect(hosts([server])) as client,
    ):
        with pytest.raises(TooLargeError, match=f"at most {LIMIT}"):
            client.set("a", bytes(LIMIT))
        with pytest.raises(TooLargeError, match=f"at most {LIMIT}"):
            client.batch([Set(f"a.{number}", bytes(100)) for number in range(100)])
        assert client.set("a", 1).changed
        assert (server.connections, len(server.requests)) == (1, 1)
