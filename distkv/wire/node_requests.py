"""What is asked about a node itself: its state, its nodes, its archive; `trace`, `stop`, `ping`.  Read and written.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final

from distkv.wire.fields import Fields, read_flag, read_int, read_node
from distkv.wire.request import (
    SEQ_MAX,
    Backup,
    GetState,
    LookForDamage,
    PingRequest,
    RetireNodeRequest,
    Stop,
    Trace,
)
from distkv.wire.row import AnyRow, Row, bare


def _read_scrub(seq: int, fields: Fields, _: bytes) -> LookForDamage:
    return LookForDamage(seq, read_flag(fields, "fast"))


def _write_scrub(request: LookForDamage, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["fast"] = request.fast


def _read_stop(seq: int, fields: Fields, _: bytes) -> Stop:
    return Stop(seq, read_int(fields, "task", SEQ_MAX, 1))


def _write_stop(request: Stop, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["task"] = request.task


def _read_retire_node(seq: int, fields: Fields, _: bytes) -> RetireNodeRequest:
    return RetireNodeRequest(seq, read_node(fields.get("node"), "node"), read_flag(fields, "force"))


def _write_retire_node(request: RetireNodeRequest, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"node": request.node, "force": request.force}


ROWS: Final[tuple[AnyRow, ...]] = (
    bare("backup", Backup, Backup),
    Row("scrub", LookForDamage, _read_scrub, _write_scrub),
    bare("trace", Trace, Trace),
    Row("stop", Stop, _read_stop, _write_stop),
    bare("get_state", GetState, GetState),
    Row("retire_node", RetireNodeRequest, _read_retire_node, _write_retire_node),
    bare("ping", PingRequest, PingRequest),
)
