"""What a client or a peer may ask of a node over its socket, as values.

Knows: the fields of every request that is served.  Does not know frames (`frames`) or who answers (services).

Invariant: a request that exists is well-formed; its value is canonical msgpack bytes (`values`).
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from distkv.model.event import Chain
from distkv.model.ledger import TickRanges
from distkv.model.path import Path
from distkv.wire.message import TickMaps


@attrs.frozen(slots=True)
class GetValue:
    seq: int
    path: Path
    nchain: int = 0
    """How many links of the chain the answer shows."""


@attrs.frozen(slots=True)
class SetValue:
    """Store, or delete when `value` is None; all conditions are judged on this node."""

    seq: int
    path: Path
    value: bytes | None
    chain: Chain | None = None
    """The entry's head must be this link (one link); empty: the path must have no entry."""
    new: bool = False
    prev: bytes | None = None
    """The old value must equal this."""
    idem: bool = False
    """When the value is the same already, do nothing."""
    nchain: int = 0


@attrs.frozen(slots=True)
class GetState:
    seq: int


@attrs.frozen(slots=True)
class PingRequest:
    seq: int


@attrs.frozen(slots=True)
class GetEvents:
    """A peer pulls events."""

    seq: int
    nodes: TickRanges


@attrs.frozen(slots=True)
class GetSnapshot:
    """A joiner asks for a download; the sponsor registers it first."""

    seq: int
    node: str
    created: float
    """When the joiner's directory was made, seconds since 1970 by its clock."""
    addr: str


@attrs.frozen(slots=True)
class ExchangeRequest:
    """A peer's tick maps; the answer holds ours."""

    seq: int
    maps: TickMaps


Request: TypeAlias = GetValue | SetValue | GetState | PingRequest | GetEvents | GetSnapshot | ExchangeRequest
