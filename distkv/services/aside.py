"""What becomes of something that this node has set aside.

Knows: what the answer holds.  Does not know what was set aside, nor why.

Invariant: a refused request changes nothing.
"""

from __future__ import annotations

from distkv.core.client_writes import WriteDone
from distkv.engine.driver import Driver
from distkv.services.core_replies import expected
from distkv.wire.node_requests import DecideAside
from distkv.wire.replies import encode_reply


def decide(driver: Driver, request: DecideAside) -> bytes:
    """Try it once more, or replace it; the reply may leave when `driver.position` is durable.

    Raises:
        RequestError: nothing of that name is set aside; or it is to be dropped, and is no change, this node is not
            ready, or its disk is full.
    """
    if not request.is_dropped:
        driver.aside.retry(request.id)
        return encode_reply(request.seq, {"changed": True})
    driver.check_room(0)
    reply = expected(driver.aside.drop(request.id, driver.step), WriteDone)
    driver.aside.look()
    return encode_reply(request.seq, {"changed": reply.event is not None})
