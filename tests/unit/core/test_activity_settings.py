"""What a node may be told about the activity network, and what it makes of that.

Knows: settings as values.  Does not know where they come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distkv.config import Config
from distkv.core.activity.config import ActivityConfig, ActivityLimits
from distkv.core.activity.settings import ActivitySettings, settings_of
from distkv.errors import SettingsError


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        (ActivityConfig, "listen", "hut1"),
        (ActivityConfig, "advertise", "hut1:0"),
        (ActivityConfig, "copies", 8),
        (ActivityConfig, "copies", -1),
        (ActivityConfig, "keep_s", 0.5),
        (ActivityConfig, "keep_s", 3601.0),
        (ActivityConfig, "keep_count", 0),
        (ActivityConfig, "keep_bytes", 1023),
        (ActivityConfig, "rate", 0),
        (ActivityConfig, "rate", 1_000_001),
        (ActivityLimits, "activity_connections", 0),
        (ActivityLimits, "activity_queue", 0),
        (ActivityLimits, "activity_queue_bytes", 0),
        (ActivityLimits, "activity_half_bytes", 0),
    ],
)
def test_setting_that_cannot_be_meant_is_refused_by_its_key(section: Any, key: str, value: object) -> None:
    with pytest.raises(SettingsError, match=key.removesuffix("_s")):
        section(**{key: value})


def test_node_without_settings_has_those_of_the_core() -> None:
    assert settings_of(Config("a", Path("d"))) == ActivitySettings()


def test_settings_are_those_of_the_configuration() -> None:
    own = {ActivityConfig: ActivityConfig("hut1:1", None, 3, 5.0, 7, 1 << 21, 9)}
    settings = settings_of(Config("a", Path("d"), services=own))
    found = (settings.copies, settings.keep_ms, settings.keep_count, settings.keep_bytes, settings.rate)
    assert found == (3, 5000, 7, 1 << 21, 9)
    assert settings.alike() == {"activity.copies": 3, "activity.keep": 5.0}
