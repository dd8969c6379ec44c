"""Values: reading and writing one path, or several in one step.

Knows: what the answers to get_value, set_value, delete_value and batch hold.  Does not know sessions or commits.

Invariant: a refused write changes nothing; a read answers from memory, without waiting.
"""

from __future__ import annotations

from typing import Final

from distkv.core.client_writes import BatchDone, Found, LocalBatch, LocalSet, WriteDone
from distkv.engine.driver import Driver
from distkv.errors import TooLargeError
from distkv.model.event import Event, Kind
from distkv.model.fence import NO_FENCE
from distkv.model.path import Path
from distkv.services.core_replies import expected
from distkv.wire.events import shown_fence
from distkv.wire.fields import chain_map
from distkv.wire.hidden import refuse_hidden
from distkv.wire.replies import (
    encode_found,
    encode_found_with_link,
    encode_reply,
    encode_result,
    encode_results,
    encode_written,
)
from distkv.wire.room import EVENT_BYTES
from distkv.wire.value_requests import Batch, GetValue, SetValue

EVENT_OVERHEAD_BYTES: Final = 256
"""What a write adds to the log besides its request: chain, times, registry."""


def get_value(driver: Driver, request: GetValue) -> tuple[bytes, bool]:
    """The reply, and whether what it shows is durable.

    Raises:
        DamagedError: what the path held is lost.
        ForbiddenError: the path is hidden.
    """
    path = request.path
    if type(path) is not Path:  # else it cannot be reserved; an attribute would cost a get one hundredth
        refuse_hidden(path)
    head = driver.replica.store.tree.head(path)
    if head is None:
        if driver.replica.store.losses.are_any:
            driver.replica.store.losses.refuse(path)
        return encode_reply(request.seq, {}), True
    if head.kind is not Kind.SET:
        return encode_reply(request.seq, {}), driver.is_durable(head)
    if request.nchain:
        if not head.older and not head.truncated and head.ttl is None and head.fence is NO_FENCE:
            return encode_found_with_link(request.seq, head), driver.is_durable(head)
        return encode_reply(request.seq, shown(head, request.nchain), head.value), driver.is_durable(head)
    return encode_found(request.seq, head), driver.is_durable(head)


def set_value(driver: Driver, request: SetValue, size: int) -> bytes:
    """Carry out a write of `size` bytes; the reply may leave when `driver.position` is durable.

    Raises:
        RequestError: as for `write`.
    """
    written = write(driver, request, size)
    event = written.event or written.prev
    if event is not None and not request.nchain and not request.prev_value:
        return encode_written(request.seq, event, changed=written.event is not None)
    return written_reply(request, written)


def write(driver: Driver, request: SetValue, size: int) -> WriteDone:
    """Carry out a write of `size` bytes; what it did is durable when `driver.position` is.

    Raises:
        RequestError: a condition does not hold, the node is not ready, or the disk is full; nothing changed.
    """
    driver.check_room(size + EVENT_OVERHEAD_BYTES)
    return expected(driver.step(LocalSet(request)), WriteDone)


def written_reply(request: SetValue, written: WriteDone, **more: object) -> bytes:
    """What a write is answered with."""
    fields = {**done(written, request.nchain), **more}
    if request.prev_value and written.prev is not None:
        return encode_result({"seq": request.seq, **fields}, {"prev": written.prev.value})
    return encode_reply(request.seq, fields)


def batch(driver: Driver, request: Batch, size: int) -> bytes:
    """Carry out a batch of `size` bytes; the reply may leave when `driver.position` is durable.

    Raises:
        RequestError: an operation is refused (`op` says which), or as for `set_value`; nothing changed.
    """
    ops = request.ops
    if len(ops) > driver.limits.batch_ops:
        raise TooLargeError(f"a batch has at most {driver.limits.batch_ops} operations, this one has {len(ops)}")
    _check_shown(driver, ops)
    driver.check_room(size + len(ops) * (EVENT_OVERHEAD_BYTES + EVENT_BYTES))
    reply = expected(driver.step(LocalBatch(ops)), BatchDone)
    results = [_result(op, result) for op, result in zip(ops, reply.results, strict=True)]
    return encode_results(request.seq, results)


def shown(event: Event, nchain: int) -> dict[str, object]:
    """What a read shows of a value besides the value itself."""
    fields: dict[str, object] = {"tock": event.tock, "time": event.time}
    if nchain:
        fields["chain"] = _chain(event, nchain)
        if event.ttl is not None:
            fields["ttl"] = event.ttl
        if event.fence is not NO_FENCE:
            fields |= shown_fence(event.fence)
    return fields


def done(written: WriteDone, nchain: int) -> dict[str, object]:
    """What a write's answer says of it."""
    event = written.event or written.prev
    fields: dict[str, object] = {"changed": written.event is not None}
    if event is not None:
        fields["tick"] = event.tick
        fields["tock"] = event.tock
        if nchain:
            fields["chain"] = _chain(event, nchain)
    return fields


# -- inside -------------------------------------------------------------------------------------------------------


def _check_shown(driver: Driver, ops: tuple[GetValue | SetValue, ...]) -> None:
    """Before anything is done: the values that a reply shows would all be in memory at once."""
    size = 0
    for op in ops:
        if isinstance(op, GetValue) or op.prev_value:
            entry = driver.replica.tree.get(op.path)
            size += len(entry.head.value) if entry is not None else 0
    if size > driver.limits.batch_bytes:
        raise TooLargeError(
            f"the values that the batch would show have {size} bytes; the limit is {driver.limits.batch_bytes}: "
            "read fewer at once"
        )


def _result(op: GetValue | SetValue, result: WriteDone | Found) -> bytes:
    if isinstance(op, SetValue) and isinstance(result, WriteDone):
        raw = {"prev": result.prev.value} if op.prev_value and result.prev is not None else {}
        return encode_result(done(result, op.nchain), raw)
    if isinstance(result, Found) and result.event is not None:
        return encode_result(shown(result.event, op.nchain), {"value": result.event.value})
    return encode_result({}, {})


def _chain(event: Event, length: int) -> dict[str, object] | None:
    return chain_map(event.chain, truncated=event.truncated, length=length)
