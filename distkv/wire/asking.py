"""What clients and peers send: requests to frames (docs: client protocol).

Knows: the name of each request, and its fields.  Does not know how they are read (`frames`), nor what is answered.

Invariant: `frames.decode_request` reads from a frame the request that it was made of.
"""

from __future__ import annotations

from typing import Final, assert_never

from distkv.wire import decisions, packing, subtrees
from distkv.wire.fields import chain_map
from distkv.wire.request import (
    Backup,
    Batch,
    DeleteTree,
    Dismiss,
    EventsWait,
    ExchangeRequest,
    GetChanges,
    GetConflicts,
    GetEvents,
    GetHistory,
    GetPages,
    GetSnapshot,
    GetState,
    GetTree,
    GetValue,
    GetValueAt,
    ListNames,
    LookForDamage,
    PingRequest,
    ReplicatedWrite,
    Request,
    Restore,
    RetireNodeRequest,
    SetValue,
    Stop,
    Trace,
    Watch,
)


def encode_request(request: Request) -> bytes:
    """What a client or a peer sends."""
    fields: dict[str, object] = {"seq": request.seq, "action": _NAMES[type(request)]}
    raw: dict[str, bytes] = {}
    match request:
        case GetValue() | SetValue():
            _write_op(request, fields, raw)
        case ReplicatedWrite(write=write):
            _write_op(write, fields, raw)
            fields |= {"replicas": request.replicas, "timeout": request.timeout_s}
        case Batch(ops=ops):
            raw["ops"] = packing.array_header(len(ops)) + b"".join(map(_packed_op, ops))
        case GetTree():
            subtrees.write_get_tree(request, fields)
        case GetValueAt() | GetHistory():
            _write_past(request, fields)
        case ListNames(path=path) | DeleteTree(path=path):
            fields["path"] = path.names
        case GetEvents() | GetPages() | EventsWait() | GetChanges() | GetSnapshot() | ExchangeRequest():
            from distkv.wire import peering  # a command asks for none of these, and they are long to load

            fields |= peering.fields_of(request)
        case RetireNodeRequest(node=node, force=force):
            fields |= {"node": node, "force": force}
        case Watch():
            subtrees.write_watch(request, fields)
        case GetConflicts() | Restore() | Dismiss():
            fields |= decisions.fields_of(request)
        case Stop(task=task):
            fields["task"] = task
        case LookForDamage(fast=fast):
            fields["fast"] = fast
        case GetState() | PingRequest() | Backup() | Trace():
            pass
        case _:
            assert_never(request)
    return packing.pack_map(fields, raw)


# -- inside -------------------------------------------------------------------------------------------------------

_NAMES: Final[dict[type[Request], str]] = {
    GetValue: "get_value",
    GetValueAt: "get_value",
    GetHistory: "history",
    Backup: "backup",
    LookForDamage: "scrub",
    SetValue: "set_value",
    ReplicatedWrite: "set_value",
    Batch: "batch",
    GetTree: "get_tree",
    ListNames: "list",
    DeleteTree: "delete_tree",
    Watch: "watch",
    GetConflicts: "conflicts",
    Restore: "restore",
    Dismiss: "dismiss",
    Trace: "trace",
    Stop: "stop",
    GetState: "get_state",
    RetireNodeRequest: "retire_node",
    PingRequest: "ping",
    GetEvents: "get_events",
    GetPages: "get_pages",
    EventsWait: "events_wait",
    GetChanges: "get_changes",
    GetSnapshot: "get_snapshot",
    ExchangeRequest: "exchange",
}


def _write_op(request: GetValue | SetValue, fields: dict[str, object], raw: dict[str, bytes]) -> None:
    fields["path"] = request.path.names
    if request.nchain:
        fields["nchain"] = request.nchain
    if isinstance(request, GetValue):
        return
    if request.value is None:
        fields["value"] = None
    else:
        raw["value"] = request.value
    if request.chain is not None:
        fields["chain"] = chain_map(request.chain, truncated=True)
    if request.prev is not None:
        raw["prev"] = request.prev
    if request.new:
        fields["new"] = True
    if request.idem:
        fields["idem"] = True
    if request.prev_value:
        fields["prev_value"] = True
    if request.ttl is not None:
        fields["ttl"] = request.ttl


def _packed_op(request: GetValue | SetValue) -> bytes:
    fields: dict[str, object] = {"action": _NAMES[type(request)]}
    raw: dict[str, bytes] = {}
    _write_op(request, fields, raw)
    return packing.pack_map(fields, raw)


def _write_past(request: GetValueAt | GetHistory, fields: dict[str, object]) -> None:
    fields["path"] = request.path.names
    if isinstance(request, GetValueAt):
        fields["at"] = request.at
        if request.nchain:
            fields["nchain"] = request.nchain
        return
    if request.limit is not None:
        fields["limit"] = request.limit
    if request.before is not None:
        fields["before"] = request.before
