"""What can be set of tokens."""

from __future__ import annotations

import pytest

from distkv.core.tokens.config import TokensConfig
from distkv.errors import SettingsError


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"servers": ("a", "b")}, "tokens.servers has 2 names: it must have 1, 3, 5 or 7"),
        ({"servers": ("a", "b", "a")}, "tokens.servers names a node twice"),
        ({"servers": ("a b",)}, "tokens.servers has 'a b'"),
        ({"lease_s": 0.1}, "tokens.lease is 0.1"),
        ({"ttl_s": 0.5}, "tokens.ttl is 0.5"),
        ({"lock_delay_s": 601.0}, "tokens.lock_delay is 601.0"),
        ({"drift": 0.3}, "tokens.drift is 0.3"),
    ],
)
def test_setting_that_cannot_be_meant_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        TokensConfig(**settings)  # type: ignore[arg-type]


def test_servers_are_one_three_five_or_seven() -> None:
    assert [len(TokensConfig(servers=tuple("abcdefg"[:count])).servers) for count in (0, 1, 3, 5, 7)] == [0, 1, 3, 5, 7]
