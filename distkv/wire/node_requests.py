"""What is asked about a node itself: its state, its nodes, its archive; `trace`, `stop`, `ping`.  Declared.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.lean import lean_value
from distkv.wire.fields import Fields, bad
from distkv.wire.request_fields import FLAG, NODE, FieldGroup, FieldKind, declared, whole_number
from distkv.wire.row import SEQ_MAX, AnyRow, ReplyForm, When
from distkv.wire.swim_records import KEY_BYTES, KEY_ID_BYTES, KeyAction

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
class GetMembers:
    """Who is in the group of the transport, as the node that is asked believes."""

    seq: int


@lean_value
class GetKeys:
    """Who of the transport's group has which keys."""

    seq: int


@attrs.frozen(slots=True)
class ChangeKey:
    """A key of the transport's group is installed, used or removed on all nodes."""

    seq: int
    action: KeyAction
    key: bytes = attrs.field(repr=False)
    """All of it to install it, else its id."""


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
    Backup
    | LookForDamage
    | TraceSteps
    | Stop
    | GetState
    | GetMembers
    | GetKeys
    | ChangeKey
    | RetireNodeRequest
    | DecideAside
    | PingRequest
)
"""What is asked about a node itself."""

# -- their fields -------------------------------------------------------------------------------------------------


def _read_id(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > ASIDE_ID_MAX:
        raise bad(name, "a text of 'aside list'", value)
    return value


def _read_action(value: object, name: str) -> KeyAction:
    found = next((one for one in KeyAction if one.name.lower() == value), None)
    if found is None:
        raise bad(name, "'install', 'use' or 'remove'", value)
    return found


def _read_change(fields: Fields, _: bytes) -> tuple[KeyAction, bytes]:
    action, key = _read_action(fields.get("change"), "change"), fields.get("key")
    size = KEY_BYTES if action is KeyAction.INSTALL else KEY_ID_BYTES
    if type(key) is not bytes or len(key) != size:
        raise DecodeError(f"the field 'key' must be {size} bytes to {action.name.lower()} a key", "bad_key")
    return action, key


def _write_change(change: Sequence[object], fields: dict[str, object], _: dict[str, bytes]) -> None:
    action, fields["key"] = change
    assert isinstance(action, KeyAction)
    fields["change"] = action.name.lower()


_ALWAYS: Final = When.ALWAYS

ROWS: Final[tuple[AnyRow[NodeRequest], ...]] = (
    declared("backup", Backup, form=ReplyForm.LONG, when=_ALWAYS),
    declared("scrub", LookForDamage, {"fast": FLAG, "drop": FLAG}, ReplyForm.LONG, _ALWAYS),
    declared("trace", TraceSteps, form=ReplyForm.OPEN, when=_ALWAYS),
    declared("stop", Stop, {"task": whole_number(SEQ_MAX, 1)}, when=_ALWAYS),
    declared("get_state", GetState, when=_ALWAYS),
    declared("get_members", GetMembers, when=_ALWAYS),
    declared("get_keys", GetKeys, when=_ALWAYS),
    declared("change_key", ChangeKey, {
        ("change", "key"): FieldGroup(2, _read_change, _write_change, is_needed=True),
    }, when=_ALWAYS),
    declared("retire_node", RetireNodeRequest, {"node": NODE, "force": FLAG}),
    declared("aside", DecideAside, {"id": FieldKind(_read_id), "drop": FLAG}, when=_ALWAYS),
    declared("ping", PingRequest, when=_ALWAYS),
)
