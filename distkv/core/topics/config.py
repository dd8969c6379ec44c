"""The settings of topics, with their defaults.

Knows: what can be set and what each setting means.  Does not know where a setting comes from.

Invariant: as that of `distkv.config`, a value that cannot be meant was refused when it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from distkv.config import above_zero
from distkv.errors import SettingsError

MESSAGE_BYTES_MAX: Final = 512 << 10
"""A node can tell another one a message of this size in one piece."""
NAMES_MAX: Final = 10_000
"""So many subscribers or producers fit into one answer."""
GAPS_MAX: Final = 4000
"""So many gaps of one producer fit into a row."""


def _up_to(high: int) -> Callable[[object, attrs.Attribute[int], int], None]:
    """For a limit: it is 1 to `high`."""

    def check(_: object, attribute: attrs.Attribute[int], value: int) -> None:
        if not 1 <= value <= high:
            raise SettingsError(f"limits.{attribute.name} is {value}: it must be 1 to {high}")

    return check


@attrs.frozen
class TopicsConfig:
    """Topics: messages that are put, kept on several nodes, and given to each subscriber once."""

    serve: bool = True
    """Whether this node keeps topics. Clients can ask every node for them, also one that keeps none."""
    replicas: int = attrs.field(default=2)
    """On how many nodes each message is, when its put is answered, as far as so many are reached: 1 to 7. The same on
    all nodes."""
    lease_s: float = attrs.field(default=2.0)
    """So many seconds the owner of a topic goes on without a copy that is silent; so long it also takes until another
    node takes over from an owner that is gone. The same on all nodes."""
    backlog_bytes: int = attrs.field(default=128 << 20)
    """How many bytes of one topic its subscribers may leave waiting; a further put is refused with `backlog`. A message
    counts its value and 512 bytes."""
    away_bytes: int = attrs.field(default=32 << 20)
    """While a node that keeps topics is away: how many bytes of messages are kept that nobody known waits for, because
    a subscriber of that node may. Above it the oldest go first."""

    @replicas.validator
    def _check_replicas(self, _: object, value: int) -> None:
        if not 1 <= value <= 7:
            raise SettingsError(f"topics.replicas is {value}: it must be 1 to 7")

    @lease_s.validator
    def _check_lease(self, _: object, value: float) -> None:
        if not 0.2 <= value <= 600:
            raise SettingsError(f"topics.lease is {value}: it must be seconds, from 0.2 to 600")

    @backlog_bytes.validator
    def _check_backlog(self, _: object, value: int) -> None:
        if value < 1 << 10:
            raise SettingsError(f"topics.backlog_bytes is {value}: it must be {1 << 10} or more")

    @away_bytes.validator
    def _check_away(self, _: object, value: int) -> None:
        if value < 0:
            raise SettingsError(f"topics.away_bytes is {value}: it must be 0 or more")


@attrs.frozen
class TopicLimits:
    """How much a node keeps of topics."""

    topic_message_bytes: int = attrs.field(default=256 << 10, validator=_up_to(MESSAGE_BYTES_MAX))
    """A message with a larger value is refused with `too_large`."""
    topics: int = attrs.field(default=10_000, validator=above_zero)
    """How many topics a node keeps, copies of others included; a further one is refused with `too_large`."""
    topic_subscribers: int = attrs.field(default=1_000, validator=_up_to(NAMES_MAX))
    """How many subscribers a topic has; a further one is refused with `too_large`."""
    topic_producers: int = attrs.field(default=10_000, validator=_up_to(NAMES_MAX))
    """How many producers a topic remembers; a further one is refused with `too_large`."""
    topic_gaps: int = attrs.field(default=1_024, validator=_up_to(GAPS_MAX))
    """How many gaps may be between the counters that came from one producer. For a further one the lowest is closed: a
    counter in it is refused with `taken`."""


SECTIONS: Final = ((TopicsConfig, "topics"), (TopicLimits, "limits"))
"""Each with the first word of its keys."""
