"""What a node may be told about topics, and what it makes of that.

Knows: settings as values.  Does not know where they come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distkv.config import Config
from distkv.core.topics.config import TopicLimits, TopicsConfig
from distkv.core.topics.settings import TopicSettings, settings_of
from distkv.errors import SettingsError


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        (TopicsConfig, "replicas", 0),
        (TopicsConfig, "replicas", 8),
        (TopicsConfig, "lease_s", 0.1),
        (TopicsConfig, "lease_s", 601.0),
        (TopicsConfig, "backlog_bytes", 1023),
        (TopicsConfig, "away_bytes", -1),
        (TopicLimits, "topic_message_bytes", 0),
        (TopicLimits, "topic_message_bytes", 1 << 20),
        (TopicLimits, "topics", 0),
        (TopicLimits, "topic_subscribers", 0),
        (TopicLimits, "topic_producers", 10_001),
        (TopicLimits, "topic_gaps", 4001),
    ],
)
def test_setting_that_cannot_be_meant_is_refused_by_its_key(section: Any, key: str, value: float) -> None:
    with pytest.raises(SettingsError, match=key.removesuffix("_s")):
        section(**{key: value})


def test_node_without_settings_has_those_of_the_core() -> None:
    assert settings_of(Config("a", Path("d"))) == TopicSettings()


def test_settings_are_those_of_the_configuration() -> None:
    own = {TopicsConfig: TopicsConfig(False, 3, 0.5, 4096, 0), TopicLimits: TopicLimits(1, 2, 3, 4, 5)}
    settings = settings_of(Config("a", Path("d"), services=own))
    assert settings == TopicSettings(False, 3, 500, 4096, 0, 1, 2, 3, 4, 5)


def test_short_and_long_lease_are_around_the_lease() -> None:
    settings = TopicSettings(lease_ms=2000, drift=0.05)
    assert (settings.short_ms, settings.long_ms) == (1900, 2100)


def test_settings_that_nodes_should_have_alike_have_their_keys() -> None:
    assert TopicSettings().alike() == {"topics.replicas": 2, "topics.lease": 2.0}
