"""What a node is told about topics at its start.

Knows: the values.  Does not know what becomes of them.

Invariant: settings never change while a node runs.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final

import attrs

from distkv.config import Config
from distkv.core.topics.config import TopicLimits, TopicsConfig

TOPICS: Final = "topics"
"""The name of the service."""


@attrs.frozen
class TopicSettings:
    """Of one node."""

    serve: bool = True
    """Whether it keeps topics."""
    replicas: int = 2
    """On how many nodes each operation is, when it is answered, as far as so many are reached."""
    lease_ms: int = 2000
    """How long an answer of a follower counts."""
    backlog_bytes: int = 128 << 20
    """What the known subscribers of a topic may leave waiting."""
    away_bytes: int = 32 << 20
    """What is kept on this node for subscribers that only servers know which are away."""
    message_bytes: int = 256 << 10
    """The largest value of a message."""
    topics_max: int = 10_000
    subscribers_max: int = 1_000
    """Of a topic."""
    producers_max: int = 10_000
    """Of a topic."""
    gaps_max: int = 1_024
    """Between the counters of one producer."""
    drift: float = 0.01
    """By how much a clock may go wrong, as a part of the time that passes."""

    @property
    def short_ms(self) -> int:
        """What is at most a lease by each clock."""
        return floor(self.lease_ms * (1 - self.drift))

    @property
    def long_ms(self) -> int:
        """What is at least a lease by each clock."""
        return ceil(self.lease_ms * (1 + self.drift))

    def alike(self) -> dict[str, int | float | str]:
        """Those that people have to set alike, by their keys in the configuration."""
        return {"topics.replicas": self.replicas, "topics.lease": self.lease_ms / 1000}


def settings_of(config: Config) -> TopicSettings:
    """As a configuration has them."""
    topics, limits = config.of(TopicsConfig), config.of(TopicLimits)
    return TopicSettings(
        serve=topics.serve,
        replicas=topics.replicas,
        lease_ms=int(topics.lease_s * 1000),
        backlog_bytes=topics.backlog_bytes,
        away_bytes=topics.away_bytes,
        message_bytes=limits.topic_message_bytes,
        topics_max=limits.topics,
        subscribers_max=limits.topic_subscribers,
        producers_max=limits.topic_producers,
        gaps_max=limits.topic_gaps,
    )
