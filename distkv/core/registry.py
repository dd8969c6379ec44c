"""The system's own entries: which paths they have, and what their values say.

Knows: the network's identity, the registration of a node, the retirement of a life.  Does not know who writes them, nor
which nodes are registered now (`update`).

Invariant: a value that is not well-formed says nothing; the same value says the same on every node.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from distkv.errors import BadValueError
from distkv.model.event import LIFE_MAX, Event, Kind, NodeName
from distkv.model.path import Path
from distkv.wire.values import unpack_value

NETWORK_PATH: Final = Path((None,))
"""The root's reserved entry: the network's id and when it was created."""


@attrs.frozen(slots=True)
class Network:
    """Which network this is."""

    id: bytes
    created: float
    """Seconds since 1970 by the founder's clock; lives count from here."""


@attrs.frozen(slots=True)
class Registration:
    """What the registry says of one node."""

    life: int
    addr: str
    since: float


def node_path(name: str) -> Path:
    """Where a node is registered."""
    return Path((None, "node", name))


def retired_path(name: str, life: int) -> Path:
    """What says that a life of a node is over for good: an entry of its own, which no later entry can outbid."""
    return Path((None, "retired", name, life))


def retired_of(path: Path) -> tuple[NodeName, int] | None:
    """The node and its life of which an event at this path says that it is over."""
    match path.names:
        case (None, "retired", str() as name, int() as life) if type(life) is int:
            return NodeName(name), life
    return None


def network_of(event: Event) -> Network | None:
    """What an event at `NETWORK_PATH` says."""
    match _map_of(event):
        case {"network": bytes() as id, "created": float() | int() as created} if math.isfinite(created):
            return Network(id, float(created))
    return None


def registration_of(event: Event) -> Registration | None:
    """What an event at a `node_path` says."""
    match _map_of(event):
        case {"life": int() as life, "addr": str() as addr, "since": float() | int() as since}:
            if 0 <= life <= LIFE_MAX and math.isfinite(since):  # a NaN would not have the same order on every node
                return Registration(life, addr, float(since))
    return None


def _map_of(event: Event) -> dict[str, object]:
    if event.kind is not Kind.SET:
        return {}
    try:
        value = unpack_value(event.value)
    except BadValueError:
        return {}
    return value if isinstance(value, dict) else {}
