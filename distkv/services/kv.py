"""Values: reading and writing one path.

Knows: what the answers to get_value, set_value and delete_value hold.  Does not know sessions or commits.

Invariant: a refused write changes nothing; a read answers from memory, without waiting.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ready import LocalSet, Written
from distkv.engine.driver import Driver
from distkv.errors import DistkvError, NotReadyError
from distkv.model.event import Event
from distkv.wire.fields import chain_map
from distkv.wire.replies import encode_reply
from distkv.wire.request import GetValue, SetValue

EVENT_OVERHEAD_BYTES: Final = 256
"""What a write adds to the log besides its request: chain, times, registry."""


def get_value(driver: Driver, request: GetValue) -> tuple[bytes, bool]:
    """The reply, and whether what it shows is durable.

    Raises:
        NotReadyError: the node does not serve clients yet.
    """
    replica = driver.replica
    if not replica.is_serving:
        raise NotReadyError(f"{replica.name} is {replica.state}, it waits for {replica.waits_for}; ask again soon")
    entry = replica.tree.get(request.path)
    if entry is None:
        return encode_reply(request.seq, {}), True
    head = entry.head
    if not entry.is_live:
        return encode_reply(request.seq, {}), driver.is_durable(head)
    fields: dict[str, object] = {"tock": head.tock, "time": head.time}
    if request.nchain:
        fields["chain"] = _chain(head, request.nchain)
    return encode_reply(request.seq, fields, head.value), driver.is_durable(head)


def set_value(driver: Driver, request: SetValue, size: int) -> bytes:
    """Carry out a write of `size` bytes; the reply may leave when `driver.position` is durable.

    Raises:
        RequestError: a condition does not hold, the node is not ready, or the disk is full; nothing changed.
    """
    driver.check_room(size + EVENT_OVERHEAD_BYTES)
    reply = driver.step(LocalSet(request))
    if isinstance(reply, DistkvError):
        raise reply
    if not isinstance(reply, Written):
        raise TypeError(f"a write was answered with {type(reply).__name__}")
    event = reply.event or reply.prev
    fields: dict[str, object] = {"changed": reply.event is not None}
    if event is not None:
        fields["tick"] = event.tick
        fields["tock"] = event.tock
        if request.nchain:
            fields["chain"] = _chain(event, request.nchain)
    return encode_reply(request.seq, fields)


def _chain(event: Event, length: int) -> dict[str, object] | None:
    return chain_map(event.chain, truncated=event.truncated, length=length)
