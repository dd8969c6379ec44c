"""The nodes of the network: who is in the group of the transport, and which are gone for good.

Knows: what the answers hold.  Does not know who finds out who is there, nor what becomes of a node that was retired.

Invariant: a refused request changes nothing.
"""

from __future__ import annotations

from distkv.core.client_writes import Retired, RetireNode
from distkv.engine.driver import Driver
from distkv.errors import DisabledError, RequestError
from distkv.services.core_replies import expected
from distkv.transport.base import KeyDesk
from distkv.wire.node_requests import ChangeKey, GetKeys, GetMembers, RetireNodeRequest
from distkv.wire.replies import encode_reply


def get_members(driver: Driver, request: GetMembers) -> bytes:
    """The reply to `get_members`.

    Raises:
        DisabledError: the transport does not find out who is there.
    """
    members = None if driver.transport is None else driver.transport.members()
    if members is None:
        raise DisabledError(f"only the transport swim has members, and {driver.replica.name} uses another one")
    found = [
        {
            "node": member.node,
            "addr": member.addr,
            "state": member.state,
            "generation": member.generation,
            "since": member.since_s,
        }
        for member in members
    ]
    return encode_reply(request.seq, {"members": found})


def get_keys(driver: Driver, request: GetKeys) -> bytes:
    """The reply to `get_keys`.

    Raises:
        DisabledError: the transport has no keys that change while it runs.
    """
    return encode_reply(request.seq, {"nodes": {name: [*ids] for name, ids in _key_desk(driver).keys().items()}})


def change_key(driver: Driver, request: ChangeKey) -> bytes:
    """The reply to `change_key`: it has begun.

    Raises:
        DisabledError: the transport has no keys that change while it runs.
        RequestError: it cannot be done now.
    """
    refusal = _key_desk(driver).change(request.action, request.key)
    if refusal:
        raise RequestError(refusal)
    return encode_reply(request.seq, {})


def _key_desk(driver: Driver) -> KeyDesk:
    desk = None if driver.transport is None else driver.transport.key_desk()
    if desk is None:
        raise DisabledError(f"only the transport swim has keys, and {driver.replica.name} uses another one")
    return desk


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
