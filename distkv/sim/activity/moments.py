"""What befalls activities, as the clients of the simulator see it, and as rules are told.

Knows: the forms.  Does not know how a client comes to it (`chatting`), nor what is right (`rules`).

Invariant: all are values. A text is sent once in a run, so it says which activity is meant.
"""

from __future__ import annotations

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


@attrs.frozen
class GapHeard:
    """A client is told that these do not come."""

    client: str
    origin: str
    first: int
    last: int


ChatMoment: TypeAlias = (
    ChatBegun | ClientArrived | ClientSentOn | ActivityWritten | ActivityEchoed | ActivityHeard | GapHeard
)
