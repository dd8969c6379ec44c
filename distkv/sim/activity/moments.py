"""What befalls activities, as the clients of the simulator see it, and as rules are told.

Knows: the forms.  Does not know how a client comes to it (`chatting`), nor what is right (`rules`).

Invariant: all are values. A text is sent once in a run, so it says which activity is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import attrs


@attrs.frozen
class ChatBegun:
    """A client is logged in for the first time."""

    client: str


@attrs.frozen
class ClientArrived:
    """A client is logged in, at this node."""

    client: str
    node: str


@attrs.frozen
class ClientSentOn:
    """A node tells a client to go to another one."""

    client: str


@attrs.frozen
class ActivityWritten:
    """A client sends an activity."""

    client: str
    text: str


@attrs.frozen
class ActivityEchoed:
    """Its echo came, on the connection on which it was sent."""

    client: str
    text: str


@attrs.frozen
class ActivityHeard:
    """A client hears an activity."""

    client: str
    text: str
    origin: str
    number: int
    node: str = ""
    """Where it is connected."""


@attrs.frozen
class GapHeard:
    """A client is told that these do not come."""

    client: str
    origin: str
    first: int
    last: int
    node: str = ""
    """Where it is connected."""
    holders: Mapping[int, Collection[str]] = attrs.field(factory=dict)
    """Which nodes have each of them at this moment."""


@attrs.frozen
class ActivityGivenOut:
    """A node gives an activity to its clients."""

    node: str
    origin: str
    number: int
    holders: Collection[str] = ()
    """If it is the echo: which nodes have it at this moment."""
    copies: int = 0
    """How many others must have it then."""


@attrs.frozen
class PassedOver:
    """A node tells its clients that these do not come."""

    node: str
    origin: str
    first: int
    last: int
    holders: Mapping[int, Collection[str]]
    """Which nodes have each of them at this moment."""


@attrs.frozen
class NodeEnding:
    """A node is told to end, and sends its clients elsewhere."""

    node: str


@attrs.frozen
class NodeEnded:
    """It has done so, or was not waited for any longer."""

    node: str
    is_done: bool
    """Whether it says so itself."""
    left: int
    """How many clients are still connected, and were not told to go."""


ChatMoment: TypeAlias = (
    ChatBegun
    | ClientArrived
    | ClientSentOn
    | ActivityWritten
    | ActivityEchoed
    | ActivityHeard
    | GapHeard
    | ActivityGivenOut
    | PassedOver
    | NodeEnding
    | NodeEnded
)
