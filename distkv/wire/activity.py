"""What clients of the store ask the activity service, and what it answers. What its own clients say is elsewhere
(`activity_lines`).

Knows: the fields of that.  Does not know who is connected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from distkv.model.lean import lean_value
from distkv.naming import is_node_name
from distkv.wire.fields import bad
from distkv.wire.request_fields import FLAG, FieldKind, declared, whole_number
from distkv.wire.row import ReplyForm
from distkv.wire.services import ServiceForm, ServiceReply, ServiceRequest

NAMES_MAX: Final = 1000
"""So many users are named in one answer."""
USER_CHARS_MAX: Final = 64


@lean_value
class ActivityWho(ServiceRequest):
    """How many clients each node has."""

    seq: int
    names: bool = False
    """Whether the users are named, too."""
    limit: int = NAMES_MAX
    after: str = ""
    """Only users behind this one: `NODE USER`."""


@lean_value
class ActivityPlace(ServiceRequest):
    """Where the listener of this node is."""

    seq: int


@attrs.frozen(slots=True)
class ActivityNodeItem:
    """A node that has a listener."""

    node: str
    clients: int
    """How many are logged in."""
    addr: str
    """HOST:PORT of its listener."""


@attrs.frozen(slots=True)
class ActivityPeople(ServiceReply):
    """The nodes that have a listener, by name, and who is logged in there."""

    nodes: tuple[ActivityNodeItem, ...]
    names: Mapping[str, tuple[str, ...]] | None = None
    """Of each node the users, each once, in order; None: that was not asked."""
    more: bool = False
    """Whether there are further ones, behind the last one."""
    away: tuple[str, ...] = ()
    """The nodes that did not say who is there."""


@attrs.frozen(slots=True)
class ActivityPlaced(ServiceReply):
    """The listener of this node."""

    host: str
    port: int


ActivityReply: TypeAlias = ActivityPeople | ActivityPlaced


def _reply_fields(reply: ActivityReply) -> tuple[Mapping[str, object], Mapping[str, bytes]]:
    if isinstance(reply, ActivityPlaced):
        return {"host": reply.host, "port": reply.port}, {}
    fields: dict[str, object] = {"nodes": [attrs.asdict(one) for one in reply.nodes]}
    if reply.names is not None:
        fields["names"] = {node: [*names] for node, names in reply.names.items()}
    return fields, {}


def _read_user(value: object, name: str) -> str:
    """Of which node which user; empty: before all of them."""
    if value == "":
        return ""
    node, _, user = value.partition(" ") if type(value) is str else ("", "", "")
    if not (is_node_name(node) and 0 < len(user) <= USER_CHARS_MAX):
        raise bad(name, "NODE USER, as one text", value)
    return f"{node} {user}"


FORM: Final = ServiceForm(
    "activity",
    (
        declared(
            "activity_who",
            ActivityWho,
            {"names": FLAG, "limit": whole_number(NAMES_MAX, 1), "after": FieldKind(_read_user)},
            ReplyForm.LATER,
        ),
        declared("activity_place", ActivityPlace, form=ReplyForm.LATER),
    ),
    _reply_fields,
    when_off="this node has no listener for the activity network: set activity.listen, or ask another node",
)
