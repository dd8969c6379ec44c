"""What befalls messages and subscriptions, as the clients of the simulator see it, and as rules are told.

Knows: the forms.  Does not know how a client comes to it (`clients`), nor what is right (`rules`).

Invariant: all are values. A message's value is used by one put only, so it says which put is meant.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from distkv.model.ranges import Ranges

Identity: TypeAlias = tuple[str, int]
"""Producer and counter."""


@attrs.frozen
class PutSent:
    """A put leaves a client, for the first time or again."""

    client: str
    topic: str
    value: str
    identity: Identity | None
    """None: the node chooses it."""


@attrs.frozen
class PutStored:
    """It is stored."""

    client: str
    topic: str
    value: str
    identity: Identity
    copies: int


@attrs.frozen
class PutDenied:
    """It is refused this time."""

    client: str
    topic: str
    value: str
    code: str
    is_certain: bool
    """Whether nothing of it can have happened."""


@attrs.frozen
class SubscriptionTaken:
    """A subscription is taken, or an end of one."""

    topic: str
    subscriber: str
    is_subscribed: bool
    op: int
    is_changed: bool
    copies: int


@attrs.frozen
class SubscriptionSent:
    """A client asks for a subscription, or (`is_subscribed` False) for the end of one."""

    topic: str
    subscriber: str
    is_subscribed: bool
    op: int | None
    """None: the servers choose it."""


@attrs.frozen
class SubscriptionMissed:
    """A client hears that its subscriber is not subscribed."""

    topic: str
    subscriber: str
    asked_ms: int
    why: str


@attrs.frozen
class GetSent:
    """A client asks for messages, and says what it has. `number` is of all gets in the run."""

    topic: str
    subscriber: str
    number: int
    done: tuple[Identity, ...]


@attrs.frozen
class GetTold:
    """The answer has come: what was said is durable."""

    topic: str
    subscriber: str
    number: int
    messages: tuple[tuple[Identity, str], ...]
    """With the value of each."""
    gone: tuple[tuple[str, Ranges], ...] = ()


@attrs.frozen
class MessageRecorded:
    """A consumer has put a message into its state."""

    topic: str
    subscriber: str
    state: int
    """Which state it is: one that is copied, set back or lost is another one from then on."""
    identity: Identity
    value: str


@attrs.frozen
class StateForked:
    """From here on another state has what one had, or a part of it."""

    old: int
    new: int
    kept: int
    """So many of the messages that were recorded first."""


@attrs.frozen
class TopicLimited:
    """Somebody limits how much a topic keeps, or drops it: then messages may go that nobody has seen."""

    topic: str
    is_dropped: bool = False


TopicMoment: TypeAlias = (
    PutSent | PutStored | PutDenied | SubscriptionTaken | SubscriptionSent | GetSent | GetTold | MessageRecorded
    | StateForked | SubscriptionMissed | TopicLimited
)  # fmt: skip
