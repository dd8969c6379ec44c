"""What is asked about a node itself: its state, its nodes, its archive; `trace`, `stop`, `ping`.  Read and written.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.model.event import NodeName
from distkv.model.lean import lean_value
from distkv.wire.fields import Fields, bad, read_flag, read_int, read_node
from distkv.wire.row import SEQ_MAX, AnyRow, ReplyForm, RequestRow, When, bare

ASIDE_ID_MAX: Final = 1000
"""Characters of what names something that is set aside."""

# -- what is asked ------------------------------------------------------------------------------------------------


@lean_value
class Backup:
    """The node's whole archive, as a long result."""

    seq: int


@lean_value
class LookForDamage:
    """A look at all that the node's archive holds, as a long result."""

    seq: int
    fast: bool = False
    """Without the pauses that leave the disk to others."""
    drop: bool = False
    """Before it, do without what is lost and cannot be named."""


@lean_value
class TraceSteps:
    """Be told of every step of the node, as a long result that only `Stop` ends."""

    seq: int


@lean_value
class Stop:
    """End a watch or a trace."""

    seq: int
    task: int
    """The `seq` of the request that began it."""


@lean_value
class GetState:
    seq: int


@lean_value
class RetireNodeRequest:
    """A node is gone for good."""

    seq: int
    node: NodeName
    force: bool = False
    """Also when it is seen alive."""


@lean_value
class DecideAside:
    """What becomes of something that the node has set aside."""

    seq: int
    id: str
    is_dropped: bool = False
    """Whether a change is replaced by what the node has at its path; else it is tried once more."""


@lean_value
class PingRequest:
    seq: int


NodeRequest: TypeAlias = (
    Backup | LookForDamage | TraceSteps | Stop | GetState | RetireNodeRequest | DecideAside | PingRequest
)
"""What is asked about a node itself."""

# -- read and written ---------------------------------------------------------------------------------------------


def _read_scrub(seq: int, fields: Fields, _: bytes) -> LookForDamage:
    return LookForDamage(seq, read_flag(fields, "fast"), read_flag(fields, "drop"))


def _write_scrub(request: LookForDamage, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"fast": request.fast, "drop": request.drop}


def _read_stop(seq: int, fields: Fields, _: bytes) -> Stop:
    return Stop(seq, read_int(fields, "task", SEQ_MAX, 1))


def _write_stop(request: Stop, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["task"] = request.task


def _read_retire_node(seq: int, fields: Fields, _: bytes) -> RetireNodeRequest:
    return RetireNodeRequest(seq, read_node(fields.get("node"), "node"), read_flag(fields, "force"))


def _write_retire_node(request: RetireNodeRequest, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"node": request.node, "force": request.force}


def _read_aside(seq: int, fields: Fields, _: bytes) -> DecideAside:
    id = fields.get("id")
    if not isinstance(id, str) or len(id) > ASIDE_ID_MAX:
        raise bad("id", "a text of 'aside list'", id)
    return DecideAside(seq, id, read_flag(fields, "drop"))


def _write_aside(request: DecideAside, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"id": request.id, "drop": request.is_dropped}


ROWS: Final[tuple[AnyRow[NodeRequest], ...]] = (
    bare("backup", Backup, Backup, ReplyForm.LONG),
    RequestRow("scrub", LookForDamage, _read_scrub, _write_scrub, ReplyForm.LONG, When.ALWAYS),
    bare("trace", TraceSteps, TraceSteps, ReplyForm.OPEN),
    RequestRow("stop", Stop, _read_stop, _write_stop, when=When.ALWAYS),
    bare("get_state", GetState, GetState, ReplyForm.SIMPLE),
    RequestRow("retire_node", RetireNodeRequest, _read_retire_node, _write_retire_node),
    RequestRow("aside", DecideAside, _read_aside, _write_aside, when=When.ALWAYS),
    bare("ping", PingRequest, PingRequest, ReplyForm.SIMPLE),
)
