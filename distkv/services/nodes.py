"""The nodes of the network: which of them are gone for good.

Knows: what the answer to retire_node holds.  Does not know what becomes of a node that was retired.

Invariant: a refused request changes nothing.
"""

from __future__ import annotations

from distkv.core.client_writes import Retired, RetireNode
from distkv.engine.driver import Driver
from distkv.services.core_replies import expected
from distkv.wire.node_requests import RetireNodeRequest
from distkv.wire.replies import encode_reply


async def retire(driver: Driver, request: RetireNodeRequest) -> bytes:
    """Write that a node is gone for good; the reply may leave when `driver.position` is durable. Unless `force` is
    given, the node itself is asked first: for some seconds where it hangs.

    Raises:
        RequestError: it is not known, or seems alive; this node is not ready, or its disk is full.
    """
    driver.check_room(0)
    answers = None if request.force else await driver.answers(request.node)
    reply = expected(driver.step(RetireNode(request.node, request.force, answers)), Retired)
    return encode_reply(request.seq, {"changed": reply.changed, "life": reply.life})
