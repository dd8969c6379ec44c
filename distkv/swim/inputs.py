"""The vocabulary of the membership machine: what it is told, what it reports, and what one step gives.

Knows: every input and every report of `SwimMachine.step`.  Does not know what is decided, nor who carries it out.

Invariant: all times are milliseconds of a clock that goes on while the machine sleeps. What can be read is handed in
before `Woke` is; timers run in no other input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

import attrs

from distkv.swim.keyring import Keyring
from distkv.wire.swim_records import Address, KeyAction, MemberState

DATAGRAMS_MAX: Final = 64
"""So many datagrams are handed in with one step."""


class SwimRng(Protocol):
    """The randomness that is handed in; `random.Random` is one."""

    def random(self) -> float: ...

    def getrandbits(self, k: int, /) -> int: ...


@attrs.frozen(slots=True)
class SwimSettings:
    """How a node takes part."""

    group: str
    interval_ms: int = 500
    """Between two probes of a node that hears well; all other times follow from it."""
    admission: str = "accept"
    """What is said to those who would join: `accept`, `ignore` or `closed`."""
    bytes_per_s: int = 512 << 10
    """Of user messages, all copies that this node sends."""


@attrs.frozen(slots=True)
class Member:
    """What a node believes about one node."""

    node: str
    address: Address
    state: MemberState
    generation: int
    since_ms: int
    """When it took this state, for this node."""
    start: bytes
    addresses: tuple[str, ...] = ()
    """All that it says to listen at."""
    interval_ms: int = 500
    keys: tuple[bytes, ...] = ()
    """The ids of those that it says to have, the one that seals first."""


# -- what the machine is told -------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class Datagrams:
    """They came, each from this address."""

    items: tuple[tuple[Address, bytes], ...]


@attrs.frozen(slots=True)
class Woke:
    """Nothing is left to be read, and it may be time for something."""


@attrs.frozen(slots=True)
class SayMessage:
    """A user message to all."""

    kind: int
    body: bytes


@attrs.frozen(slots=True)
class Noticed:
    """Something came from a node on a link, or its link broke."""

    node: str
    is_well: bool


@attrs.frozen(slots=True)
class KnownNodes:
    """All registered nodes and where they are: they are never forgotten."""

    addresses: Mapping[str, Address]


@attrs.frozen(slots=True)
class Seeds:
    """Where somebody of the group may be: all that `--join` and the peers file say."""

    addresses: tuple[Address, ...]


@attrs.frozen(slots=True)
class Dropped:
    """The kernel had no room for so many datagrams that came."""

    number: int


@attrs.frozen(slots=True)
class LeaveGroup:
    """The node ends on purpose; `SwimMachine.is_over` says when all was told."""


@attrs.frozen(slots=True)
class ChangeKeys:
    """The operator changes the keyring of all nodes."""

    action: KeyAction
    key: bytes
    """All of it to install it, else its id."""


@attrs.frozen(slots=True)
class KeysKept:
    """The file has this keyring now."""

    keyring: Keyring
    is_by_hand: bool = False
    """Somebody else wrote it, and it was read again."""


SwimInput: TypeAlias = (
    Datagrams | Woke | SayMessage | Noticed | KnownNodes | Seeds | Dropped | LeaveGroup | ChangeKeys | KeysKept
)


# -- what the machine reports -------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class MemberChanged:
    """A member is new, or has another state, address or generation."""

    member: Member


@attrs.frozen(slots=True)
class MessageHeard:
    """A user message of another node."""

    origin: str
    kind: int
    body: bytes


@attrs.frozen(slots=True)
class MessagesMissed:
    """User messages were lost on their way to us."""


@attrs.frozen(slots=True)
class Joined:
    """Somebody of the group knows us; said once."""


@attrs.frozen(slots=True)
class Refused:
    """We may not join, or not stay: `name_taken`, `group`, `version` or `closed`."""

    code: str
    text: str
    """One line: what happened, where, and what to do."""


@attrs.frozen(slots=True)
class KeysChanged:
    """The keyring is to be written; the first key seals. `KeysKept` says when it is."""

    keys: tuple[bytes, ...]


@attrs.frozen(slots=True)
class KeysRefused:
    """What the operator wants of the keys is not done."""

    text: str
    """One line: why, and what to do."""


@attrs.frozen(slots=True)
class Noted:
    """One line for the log."""

    name: str
    fields: Mapping[str, str | int]


SwimReport: TypeAlias = (
    MemberChanged | MessageHeard | MessagesMissed | Joined | Refused | KeysChanged | KeysRefused | Noted
)


# -- what one step gives ------------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class Datagram:
    """To be sent."""

    address: Address
    data: bytes


@attrs.frozen(slots=True)
class SwimStep:
    """What one step gives."""

    datagrams: list[Datagram]
    reports: list[SwimReport]
    wake_ms: int
    """When `Woke` is wanted at the latest."""
