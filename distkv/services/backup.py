"""A copy of a whole node, sent to a client.

Knows: how the copy is cut into parts.  Does not know what is in it.

Invariant: what is sent is the node as of one moment after the request came; the copy is removed however it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from distkv.engine.driver import Driver
from distkv.engine.scarce import on_a_thread
from distkv.errors import RequestError
from distkv.wire.node_requests import Backup
from distkv.wire.replies import encode_end, encode_reply, encode_start

PART_BYTES: Final = 256 << 10


async def send_backup(driver: Driver, request: Backup, send: Callable[[int, bytes], Awaitable[None]]) -> None:
    """Send the archive, after settling everything into it.

    Raises:
        RequestError: there is no archive, no space for the copy, or a backup under way already.
    """
    if driver.settler is None or driver.replica.network_id is None:
        raise RequestError(f"{driver.replica.name} has nothing to back up")
    async with driver.settler.backup() as path:
        await send(request.seq, encode_start(request.seq))
        with await on_a_thread(open, path, "rb") as file:
            while data := await on_a_thread(file.read, PART_BYTES):
                await send(request.seq, encode_reply(request.seq, {"data": data}))
        await send(request.seq, encode_end(request.seq))
