"""What clients and peers send: requests to frames (docs: client protocol).

Knows: where the row of each request is.  Does not know what is in it, nor what is answered.

Invariant: `frames.decode_request` reads from a frame the request that it was made of.
"""

from __future__ import annotations

from typing import Final

from distkv.wire import decisions, node_requests, packing, subtrees, value_requests
from distkv.wire.replicated import ReplicatedWrite, with_replicas
from distkv.wire.request import Request
from distkv.wire.row import AnyRow

_ROWS: Final[tuple[AnyRow[Request], ...]] = (
    *value_requests.ROWS,
    *subtrees.ROWS,
    *decisions.ROWS,
    *node_requests.ROWS,
)
CLIENT_ROWS: Final[tuple[AnyRow[Request], ...]] = (*with_replicas(_ROWS),)
"""What any client asks; `peering` and `services` have the others."""


def encode_request(request: Request) -> bytes:
    """What a client or a peer sends."""
    asked: Request = request.write if isinstance(request, ReplicatedWrite) else request
    row = _BY_TYPE.get(type(asked)) or _rare_row(type(asked))
    fields: dict[str, object] = {"seq": request.seq, "action": row.action}
    raw: dict[str, bytes] = {}
    if row.write is not None:
        row.write(asked, fields, raw)
    if isinstance(request, ReplicatedWrite):
        fields |= request.fields
    return packing.pack_map(fields, raw)


def _by_type(rows: tuple[AnyRow[Request], ...]) -> dict[type[Request], AnyRow[Request]]:
    return {row.type: row for row in rows if row.write is not None}


def _rare_row(type: type[Request]) -> AnyRow[Request]:
    from distkv.wire import peering, services  # few commands ask for any of these, and they are long to load

    _BY_TYPE.update(_by_type((*peering.ROWS, *services.service_rows())))
    return _BY_TYPE[type]


_BY_TYPE: Final = _by_type(CLIENT_ROWS)
