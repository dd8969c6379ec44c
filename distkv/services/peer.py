"""What other nodes ask: exchanges, pulls and downloads. Answered in every state with what there is, but for downloads.

Knows: how the parts of an answer become frames.  Does not know what is in them (`services.parts`).

Invariant: a part leaves only when every own event in it is durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from distkv.engine.driver import Driver
from distkv.services.parts import answer_parts
from distkv.wire.codec import Payload, encode_payload
from distkv.wire.replies import encode_end, encode_start
from distkv.wire.request import ExchangeRequest, GetEvents, GetPages, GetSnapshot

Send: TypeAlias = Callable[[int, Payload | bytes], Awaitable[None]]
"""Sends one part of the answer with this seq; returns when it has left."""


def exchange(driver: Driver, request: ExchangeRequest) -> bytes:
    """Take the peer's tick maps, answer with ours.

    Raises:
        RequestError: it belongs to another network.
    """
    (maps,) = answer_parts(request, driver.replica, driver.step, driver.check_room)
    return encode_payload(request.seq, maps)


async def send_answer(driver: Driver, request: GetEvents | GetPages | GetSnapshot, send: Send) -> None:
    """Answer a pull, a comparison of trees, or a download.

    Raises:
        RequestError: this node is not ready to be downloaded from, or its disk is full, or the name is taken; nothing
            was sent.
    """
    seq = request.seq
    parts = answer_parts(request, driver.replica, driver.step, driver.check_room)
    first = next(parts, None)
    await send(seq, encode_start(seq))
    if first is not None:
        await send(seq, first)
    for part in parts:
        await send(seq, part)
    await send(seq, encode_end(seq))
